"""Estimates the memory and time of a simulation before it starts, from the sizes of its models.
Imports no torch.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from swarm_node.common.batched import paired
from swarm_node.common.children import usable_cores
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
ROUND = 0.03  # seconds of a node's round with a starter
WORTH_A_PROCESS = 30.0  # seconds of a cell: a further process takes three to start
CARD_DRIVERS = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")  # NVIDIA, AMD, any under WSL2
MAX_HEAD = 64 * 1024 * 1024  # bytes
PROMPT, PER_SECOND = 64, 4e10  # tokens; floating-point operations of a processor


def estimated(config: SimulationConfig, todo: Sequence[Cell], at_once: int) -> Iterator[str]:
    """A line about memory and time where large models run on the processors of this machine.
    UserError where they take more memory than is free.
    """
    if not on_processors(config):
        return
    cells = sized(config, todo)
    sizes = _sizes(config)
    if not todo or sum(sizes) < LARGE:
        return
    processes = node_processes(config, todo, at_once)
    taken = [
        memory(*sized_cell, processes=processes[cell]) for cell, sized_cell in paired(todo, cells)
    ]
    most, free = max(taken), available()
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
    at_work = min(usable_cores(), at_once * max(processes.values()))
    seconds = sum(processor_seconds(*cell) for cell in cells) / at_work
    yield f"{need} and up to {duration(seconds)}, roughly, where nothing else runs"


def node_processes(config: SimulationConfig, todo: Sequence[Cell], at_once: int) -> dict[Cell, int]:
    """Over how many processes each cell spreads its nodes: the cores of this machine, in proportion
    to the work of the cells. Each has 1 where a start is not worth it, where more would take too
    much memory, and where the user has said how many processes there are.
    """
    cells = dict(paired(todo, sized(config, todo)))
    if config.node_processes:
        return {cell: min(config.node_processes, own.nodes) for cell, (own, _) in cells.items()}
    one_each = dict.fromkeys(todo, 1)
    if not todo or config.workers or not on_processors(config):
        return one_each
    seconds = {cell: cell_seconds(own, sizes) for cell, (own, sizes) in cells.items()}
    cores = usable_cores() // (config.threads or 1)
    shares = {cell: cores * spent / sum(seconds.values()) for cell, spent in seconds.items()}
    spread = {
        cell: max(1, min(math.ceil(shares[cell]), own.nodes))
        for cell, (own, _) in cells.items()
        if seconds[cell] >= WORTH_A_PROCESS
    }
    processes = {**one_each, **spread}
    most = max(memory(*cells[cell], processes=count) for cell, count in processes.items())
    return processes if at_once * most <= available() else one_each


def on_processors(config: SimulationConfig) -> bool:
    """Whether the nodes run in memory, on processors of this machine: not on a card that is there,
    nor on a device that is named, such as mps.
    """
    device = config.model.device
    has_card = any(Path(driver).exists() for driver in CARD_DRIVERS)
    on_card = has_card if device == "auto" else device != "cpu"
    return config.engine == "memory" and not on_card


def sized(
    config: SimulationConfig, todo: Sequence[Cell]
) -> list[tuple[SimulationConfig, list[int]]]:
    """The configuration of each cell, and the parameters of each of its nodes."""
    sizes = _sizes(config)
    configs = [cell_config(config, cell) for cell in todo]
    return [(own, sizes[: own.nodes]) for own in configs]


def memory(config: SimulationConfig, sizes: Sequence[int], processes: int = 1) -> float:
    """Bytes that a cell takes. `sizes`: parameters of each node. With adapters, nodes of a model in
    a process share its weights.
    """
    kept = ADAPTED if config.model.lora_rank else TRAINED
    return processes * (PROCESS + SHARED * sum(set(sizes))) + kept * sum(sizes)


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


def cell_seconds(config: SimulationConfig, sizes: Sequence[int]) -> float:
    """Seconds of a cell on one core, with what a round costs however small its models are."""
    return processor_seconds(config, sizes) + ROUND * config.rounds * len(sizes)


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
