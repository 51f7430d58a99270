"""Runs cells side by side in worker processes. It knows nothing of folders and reports, and imports no torch.

Each cell has a process of its own, so a crash or a leak stays there and no cell affects the next. That costs about 3 s
of start-up per cell.
"""

import contextlib
import os
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue

from swarm_node.settings import SimulationConfig
from swarm_node.simulation.arms import Cell
from swarm_node.simulation.worker_messages import (
    DoneMessage,
    FailedMessage,
    RoundMessage,
    read_message,
    worker_environment,
    write_order,
)
from swarm_node.telemetry.events import CellRound, CellStarted, Event


@dataclass(frozen=True, slots=True)
class Finished:
    """A cell that ran to its end."""

    cell: Cell
    rounds: tuple[CellRound, ...]
    memory: tuple[float, ...]  # MB, through the run


@dataclass(frozen=True, slots=True)
class Failed:
    """A cell that failed: one line, and whether it is a mistake of the user."""

    cell: Cell
    error: str
    by_user: bool


@dataclass(slots=True, eq=False)
class _Running:
    cell: Cell
    process: subprocess.Popen[str]
    rounds: list[CellRound] = field(default_factory=list)


_Lines = SimpleQueue[tuple[_Running, str | None]]  # None: the worker closed its pipe


def run_cells(
    cells: Sequence[Cell],
    config: SimulationConfig,
    *,
    workers: int,
    command: Sequence[str],
    log: Callable[[Cell], Path],
    emit: Callable[[Event], None],
) -> Generator[Finished | Failed, None, None]:
    """Yields cells as they end. `log` names the file for a worker's stderr.

    Closing the iterator, or any exception in here (Ctrl-C), kills all running cells.
    """
    waiting, lines = deque(cells), _Lines()
    alive: list[_Running] = []
    try:
        while waiting or alive:
            while waiting and len(alive) < workers:
                started = _start(waiting.popleft(), config, command, log, lines)
                alive.append(started)
                emit(CellStarted(str(started.cell.arm), started.cell.seed))
            worker, line = lines.get()
            if worker not in alive:  # left in the pipe of a cell that has ended
                continue
            ended = _handle(worker, line, emit)
            if ended is not None:
                alive.remove(worker)
                _kill(worker)
                yield ended
    finally:
        for worker in alive:
            _kill(worker)


def _start(
    cell: Cell, config: SimulationConfig, command: Sequence[str], log: Callable[[Cell], Path], lines: _Lines
) -> _Running:
    with log(cell).open("wb") as stderr:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            encoding="utf-8",
            env=worker_environment(config),
            start_new_session=True,  # the parent handles Ctrl-C; the group is killed as one
        )
    worker = _Running(cell, process)
    threading.Thread(target=_read, args=(worker, lines), daemon=True).start()
    with contextlib.suppress(OSError):  # it died at once: the reading thread reports that
        assert process.stdin is not None
        process.stdin.write(write_order(config, cell))
        process.stdin.flush()
    return worker


def _read(worker: _Running, lines: _Lines) -> None:
    assert worker.process.stdout is not None
    for line in worker.process.stdout:
        lines.put((worker, line))
    lines.put((worker, None))


def _handle(worker: _Running, line: str | None, emit: Callable[[Event], None]) -> Finished | Failed | None:
    """How the cell ended, if this line ends it."""
    if line is None:
        return Failed(worker.cell, _last_words(worker), by_user=False)
    match read_message(line):
        case RoundMessage(done):
            worker.rounds.append(done)
            emit(done)
        case DoneMessage(memory):
            return Finished(worker.cell, tuple(worker.rounds), memory)
        case FailedMessage(error, by_user):
            return Failed(worker.cell, error, by_user)
    return None


def _last_words(worker: _Running) -> str:
    code = worker.process.wait()
    if code >= 0:
        return f"the worker ended with status {code} and no message"
    hint = ", perhaps for lack of memory" if -code == signal.SIGKILL else ""
    return f"the worker was killed by {signal.Signals(-code).name}{hint}"


def _kill(worker: _Running) -> None:
    """Kills the whole process group, also after a normal end, so that nothing that a worker started outlives it."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(worker.process.pid, signal.SIGKILL)
    worker.process.wait()
    if worker.process.stdin is not None:
        with contextlib.suppress(OSError):
            worker.process.stdin.close()
