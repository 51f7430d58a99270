"""The messages between the simulation and its worker processes: one order in on stdin, JSON lines out on stdout.

The order's pipe stays open. When it closes, however the parent ended, the worker kills itself and what it started. A
worker is spawned, not forked, so threads and settings of torch are its own.
"""

import contextlib
import json
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from swarm_node.common.children import without_secrets
from swarm_node.common.errors import UserError
from swarm_node.common.files import plain
from swarm_node.common.stdio import take_stdout
from swarm_node.extensions.simulation.arms import Cell, cell_config, parse_arm
from swarm_node.extensions.simulation.elsewhere import settle_in
from swarm_node.extensions.simulation.engines.engine import Run
from swarm_node.settings import SimulationConfig
from swarm_node.settings.extended import with_sections
from swarm_node.settings.secret import revealed
from swarm_node.telemetry.events import CellRound

MEMORY_SAMPLES = 30  # per cell: enough to see whether memory grows

ENVIRONMENT = {
    "OMP_WAIT_POLICY": "passive",  # spinning idle threads would take the cores from other cells
    "MALLOC_ARENA_MAX": "2",  # otherwise glibc keeps an arena per thread, and returns no memory
    "TOKENIZERS_PARALLELISM": "false",
    "PYTHONHASHSEED": "0",  # the order of a set of strings must not differ from run to run
    "CUBLAS_WORKSPACE_CONFIG": ":4096:8",  # the same sums in the same order, on CUDA
}


@dataclass(frozen=True, slots=True)
class RoundMessage:
    """A round is done."""

    round: CellRound


@dataclass(frozen=True, slots=True)
class DoneMessage:
    """All rounds are done."""

    memory: tuple[float, ...]  # MB of the worker and its children, through the run


@dataclass(frozen=True, slots=True)
class FailedMessage:
    """The worker failed."""

    error: str  # one line
    by_user: bool  # a mistake in the configuration, which every cell has


class HostLost(Exception):
    """A part of the cell was on a host that is gone. The cell can begin anew."""


LOST = 75  # exit status of a worker that a host was lost to: EX_TEMPFAIL of sysexits.h

Message = RoundMessage | DoneMessage | FailedMessage


def node_environment(config: SimulationConfig) -> dict[str, str]:
    """Environment variables that a process with nodes needs beside those it inherits."""
    threads = str(config.threads or 1)
    return {**ENVIRONMENT, "OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads}


def worker_environment(config: SimulationConfig) -> dict[str, str]:
    """Environment variables of a worker process on this machine."""
    return without_secrets(node_environment(config))


def write_order(config: SimulationConfig, cell: Cell, there: Mapping[str, Any] | None = None) -> str:
    """The whole configuration on one line. The worker derives the cell's own from it. `there`: see elsewhere.origin,
    for a worker on another machine."""
    order = {"config": revealed(config), "arm": str(cell.arm), "seed": cell.seed}
    return json.dumps(order if there is None else {**order, "origin": there}) + "\n"


def read_order(line: str) -> tuple[SimulationConfig, Cell]:
    """The inverse of `write_order`. UserError where this machine is not like the one that the order comes from."""
    order = json.loads(line)
    if "origin" in order:
        settle_in(order["origin"])
    return with_sections(SimulationConfig).model_validate(order["config"]), Cell(parse_arm(order["arm"]), order["seed"])


def read_message(line: str) -> Message | None:
    """The message. None for a line that a dying worker did not finish."""
    try:
        fields = json.loads(line)
    except ValueError:
        return None
    match fields:
        case {"round": found}:
            return RoundMessage(read_round(found))
        case {"memory": memory}:
            return DoneMessage(tuple(memory))
        case _:
            return FailedMessage(fields["error"], fields["by_user"])


def read_round(fields: Mapping[str, Any]) -> CellRound:
    """A round from its plain data."""
    accuracy = tuple(fields.get("accuracy", ()))
    return CellRound(**{**fields, "node_rewards": tuple(fields["node_rewards"]), "accuracy": accuracy})


def serve(begin: Callable[[SimulationConfig, Cell], Run]) -> None:
    """Runs a worker: one order, its rounds, the end. Never raises: an error is its last line."""
    write = take_stdout()

    def send(message: Mapping[str, Any]) -> None:
        write(json.dumps(message) + "\n")

    order = sys.stdin.readline()
    threading.Thread(target=_die_with_parent, daemon=True).start()
    try:
        config, cell = read_order(order)
        memory = list(_rounds(config, cell, begin, send))
    except UserError as error:
        send({"error": str(error), "by_user": True})
    except HostLost as error:
        traceback.print_exception(error)
        sys.stderr.flush()
        os._exit(LOST)
    except Exception as error:  # noqa: BLE001 - the border of the process: the parent is told
        traceback.print_exc()
        send({"error": " ".join(f"{type(error).__name__}: {error}".split()), "by_user": False})
    else:
        send({"memory": memory})


def _rounds(
    config: SimulationConfig,
    cell: Cell,
    begin: Callable[[SimulationConfig, Cell], Run],
    send: Callable[[Mapping[str, Any]], None],
) -> Iterator[float]:
    """Sends every round; yields memory in MB now and then."""
    with contextlib.closing(begin(cell_config(config, cell), cell)) as run:
        every = max(1, config.rounds // MEMORY_SAMPLES)
        for done in run.rounds():
            send({"round": plain(asdict(done))})
            if done.round % every == 0 or done.round == config.rounds - 1:
                yield run.memory_mb()


def _die_with_parent() -> None:
    while os.read(sys.stdin.fileno(), 4096):
        pass
    if os.getpgid(0) == os.getpid():  # it leads its group, as the engine starts it: its children end too
        os.killpg(0, signal.SIGKILL)
    os._exit(1)
