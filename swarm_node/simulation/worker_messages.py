"""The messages between a simulation and its worker processes.

A worker is spawned, not forked, so threads and settings of torch are its own.
"""

import json

from swarm_node.common.channel import LENGTH_BYTES, Failed, PipeMessage, Talk
from swarm_node.settings.secret import revealed
from swarm_node.settings.simulation import SimulationConfig
from swarm_node.simulation.arms import Cell, parse_arm
from swarm_node.telemetry.simulated import CellRound

MAX_FRAME_BYTES = 64 * 1024 * 1024  # a round of 1,000 nodes has some MB

ENVIRONMENT = {
    "OMP_WAIT_POLICY": "passive",  # spinning idle threads would take the cores from other cells
    "MALLOC_ARENA_MAX": "2",  # otherwise glibc keeps an arena per thread, and returns no memory
    "TOKENIZERS_PARALLELISM": "false",
    "PYTHONHASHSEED": "0",  # the order of a set of strings must not differ from run to run
    "CUBLAS_WORKSPACE_CONFIG": ":4096:8",  # the same sums in the same order, on CUDA
}


class RunCell(PipeMessage, frozen=True):
    """The whole configuration, and the cell to run. The only message to a worker."""

    settings: str  # SimulationConfig as JSON, secrets included
    arm: str
    seed: int


class RoundMessage(PipeMessage, frozen=True):
    """A round is done."""

    round: CellRound


class DoneMessage(PipeMessage, frozen=True):
    """All rounds are done."""

    peak_mb: float  # memory of the worker and its children


FromWorker = RoundMessage | DoneMessage | Failed
WORKER: Talk[RunCell, FromWorker] = Talk(RunCell, FromWorker, MAX_FRAME_BYTES)


def node_environment(config: SimulationConfig) -> dict[str, str]:
    """Environment variables that a process with nodes needs besides those it inherits."""
    threads = str(config.threads or 1)
    return {**ENVIRONMENT, "OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads}


def write_order(config: SimulationConfig, cell: Cell) -> RunCell:
    """The order to run this cell. The worker derives the cell's own configuration from `config`."""
    return RunCell(as_text(config), str(cell.arm), cell.seed)


def read_frame(frame: bytes) -> RunCell:
    """The order in a frame that `WORKER.down` has encoded. Raises BrokenFrame."""
    return WORKER.down.decode(frame[LENGTH_BYTES:])


def read_order(order: RunCell) -> tuple[SimulationConfig, Cell]:
    """The inverse of `write_order`."""
    return from_text(order.settings), Cell(parse_arm(order.arm), order.seed)


def as_text(config: SimulationConfig) -> str:
    """A configuration as JSON, secrets included."""
    return json.dumps(revealed(config))


def from_text(settings: str) -> SimulationConfig:
    """The inverse of `as_text`."""
    return SimulationConfig.model_validate(json.loads(settings))
