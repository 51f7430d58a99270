"""Estimates the memory and time of a simulation before it starts, from the sizes of its models.
Imports no torch.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from swarm_node.common.errors import UserError
from swarm_node.common.memory import available
from swarm_node.common.parsing import parse_json
from swarm_node.policy import named
from swarm_node.settings.simulation import SimulationConfig
from swarm_node.simulation.arms import Cell, cell_config, node_config
from swarm_node.simulation.progress import duration

LARGE = 50_000_000  # parameters of all nodes together; below, nothing is estimated
PROCESS = 0.5e9  # bytes of a worker with its scorers
# Bytes per parameter: of each node, SHARED once; docs/results/memory.md
TRAINED, ADAPTED, SHARED = 12.0, 1.2, 8.0
MAX_HEAD = 64 * 1024 * 1024  # bytes
PROMPT, PER_SECOND = 64, 4e10  # tokens; floating-point operations of a processor


def estimated(config: SimulationConfig, todo: Sequence[Cell], at_once: int) -> Iterator[str]:
    """A line about memory and time where large models run on the processors of this machine.
    UserError where they take more memory than is free.
    """
    on_gpu = config.model.device != "cpu" and Path("/dev/nvidiactl").exists()
    if config.engine != "memory" or on_gpu:
        return
    sizes = _sizes(config)
    configs = [cell_config(config, cell) for cell in todo]
    cells = [(of_cell, sizes[: of_cell.nodes]) for of_cell in configs]
    if not todo or sum(sizes) < LARGE:
        return
    most, free = max(memory(*cell) for cell in cells), available()
    need = (
        f"{len(cells)} cells of {len(sizes)} nodes, {at_once} at a time: "
        f"{at_once * most / 1e9:.1f} GB of memory"
    )
    if at_once * most > free:
        smaller = (
            "fewer --nodes" if config.model.lora_rank else "--model.lora-rank 16, or fewer --nodes"
        )
        advice = f"--workers {int(free / most)}" if most < free else smaller
        raise UserError(
            f"{need} are needed, and {free / 1e9:.1f} GB are free: give {advice}, or end other "
            "programs"
        )
    seconds = sum(processor_seconds(*cell) for cell in cells) / at_once
    yield f"{need} and up to {duration(seconds)}, roughly, where nothing else runs"


def memory(config: SimulationConfig, sizes: Sequence[int]) -> float:
    """Bytes that a cell takes. `sizes`: parameters of each node. With adapters, nodes of a model
    share its weights.
    """
    kept = ADAPTED if config.model.lora_rank else TRAINED
    return PROCESS + kept * sum(sizes) + SHARED * sum(set(sizes))


def of_cell(config: SimulationConfig, cell: Cell) -> float:
    """Bytes that this cell is estimated to take."""
    own = cell_config(config, cell)
    return memory(own, _sizes(own))


def _sizes(config: SimulationConfig) -> list[int]:
    """The parameters of the model of each node."""
    models = [node_config(config, node).model.name for node in range(config.nodes)]
    return list(map(parameters, models))


def processor_seconds(config: SimulationConfig, sizes: Sequence[int]) -> float:
    """Seconds of a cell if every completion is as long as allowed. A token costs 2 operations per
    parameter to read or generate, and 6 to train.
    """
    generation, mix = config.generation, config.round
    completions = generation.num_generations * generation.max_completion_length
    tokens_of_group = PROMPT + completions
    written = mix.questions * tokens_of_group
    trained = (mix.local_groups + mix.external_groups) * tokens_of_group
    return config.rounds * sum(sizes) * (2.0 * written + 6.0 * trained) / PER_SECOND


def parameters(name: str) -> int:
    """The parameters of a model on this machine, by the heads of its safetensors files; 0 where it
    has none.
    """
    total = 0
    # The code that loads it says what is wrong
    with suppress(OSError, ValueError, AttributeError, TypeError):
        for file in named.folder(name).glob("*.safetensors"):
            with file.open("rb") as content:
                size = min(MAX_HEAD, int.from_bytes(content.read(8), "little"))
                head = parse_json(content.read(size))
            shapes = [tensor.get("shape", (0,)) for tensor in head.values()]
            total += sum(map(math.prod, shapes))
    return total
