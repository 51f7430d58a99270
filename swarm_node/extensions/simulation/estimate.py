"""What a simulation will take, foretold before it starts from the sizes of its models. Imports no torch."""

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil

from swarm_node.common.errors import UserError
from swarm_node.extensions.simulation.arms import Cell, cell_config
from swarm_node.extensions.simulation.node_options import node_config
from swarm_node.extensions.simulation.progress import duration
from swarm_node.extensions.simulation.settings import SimulationConfig
from swarm_node.policy import models

LARGE = 10_000_000  # parameters of a model that is worth a word
PROCESS, BESIDE = 0.5e9, 6.0  # bytes: of a worker with its scorers; of a parameter, while one node generates and trains
TRAINED, FROZEN, ADAPTERS = (
    12.0,
    4.0,
    0.5,
)  # of a parameter that is kept: with its state; under adapters; those of a node
PROMPT, PER_SECOND = 64, 2e10  # tokens; floating-point operations of a processor


def estimated(config: SimulationConfig, todo: Sequence[Cell], at_once: int) -> Iterator[str]:
    """A line about memory and time where large models run on the processors of this machine. UserError where they take
    more memory than is free."""
    if config.engine != "memory" or (config.model.device != "cpu" and Path("/dev/nvidiactl").exists()):
        return
    cells = [cell_config(config, cell) for cell in todo]
    sizes = [[parameters(node_config(cell, node).model.name) for node in range(cell.nodes)] for cell in cells]
    if max((size for each in sizes for size in each), default=0) < LARGE:
        return
    most = max(map(memory, cells, sizes))
    seconds = sum(map(processor_seconds, cells, sizes)) / at_once
    free = psutil.virtual_memory().available
    what = f"{len(cells)} cells of up to {max(map(len, sizes))} nodes, {at_once} at a time, take about"
    if at_once * most > free:
        fewer = f"--workers {int(free / most)}" if most < free else "--model.lora-rank 16, or fewer --nodes"
        raise UserError(f"{what} {at_once * most / 1e9:.1f} GB, and {free / 1e9:.1f} GB are free: give {fewer}")
    yield f"{what} {at_once * most / 1e9:.1f} GB of memory, and up to {duration(seconds)} where processors are free"


def memory(config: SimulationConfig, sizes: Sequence[int]) -> float:
    """Bytes that a cell with nodes of so many parameters takes. Under adapters, nodes share their weights."""
    kept = FROZEN * sum(set(sizes)) + ADAPTERS * sum(sizes) if config.model.lora_rank else TRAINED * sum(sizes)
    return PROCESS + kept + BESIDE * max(sizes)


def processor_seconds(config: SimulationConfig, sizes: Sequence[int]) -> float:
    """Where every completion is as long as it may be: a token costs twice as many operations as there are parameters to
    read or generate, and six times to train."""
    group, tokens, mix = config.generation.num_generations, config.generation.max_completion_length, config.round
    written = mix.questions * (PROMPT + group * tokens)
    trained = (mix.local_groups + mix.external_groups) * (PROMPT + group * tokens)
    return config.rounds * sum(sizes) * (2.0 * written + 6.0 * trained) / PER_SECOND


def parameters(name: str) -> int:
    """Of a model on this machine, by the heads of its files; 0 where it is not known."""
    total = 0
    for file in models.folder(name).glob("*.safetensors"):
        with file.open("rb") as content:
            head = json.loads(content.read(int.from_bytes(content.read(8), "little")))
        total += sum(math.prod(each.get("shape", (0,))) for each in head.values())
    return total
