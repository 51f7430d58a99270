"""Runs cells side by side in workers. It knows nothing of folders and reports, and imports no
torch.

Each cell has a process of its own, so a crash or a leak stays there and no cell affects the next.
That costs about 3 s of start-up per cell.
"""

import threading
from collections import deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from queue import SimpleQueue

from swarm_node.common.channel import Failed
from swarm_node.simulation.arms import Cell, FinishedCell
from swarm_node.simulation.engines.engine import Launch, Worker
from swarm_node.simulation.worker_messages import DoneMessage, FromWorker, RoundMessage
from swarm_node.telemetry.events import Event
from swarm_node.telemetry.simulated import CellRound, CellStarted


@dataclass(slots=True, eq=False)
class _Running:
    cell: Cell
    worker: Worker
    rounds: list[CellRound] = field(default_factory=list)


_Messages = SimpleQueue[tuple[_Running, FromWorker | None]]  # None: the worker has ended


def run_cells(
    cells: Sequence[Cell], *, workers: int, launch: Launch, emit: Callable[[Event], None]
) -> Generator[tuple[Cell, FinishedCell | Failed], None, None]:
    """Runs the cells, `workers` at a time. Yields each as it ends, with its record, or with why it
    failed.

    Closing the iterator, or any exception in here (Ctrl-C), kills all running cells.
    """
    waiting, messages = deque(cells), _Messages()
    alive: list[_Running] = []
    try:
        while waiting or alive:
            while waiting and len(alive) < workers:
                started = _start(waiting.popleft(), launch, messages)
                alive.append(started)
                emit(CellStarted(str(started.cell.arm), started.cell.seed))
            running, message = messages.get()
            if running not in alive:  # a late message of a cell that has ended
                continue
            ended = _handle(running, message, emit)
            if ended is None:
                continue
            alive.remove(running)
            running.worker.kill()
            yield running.cell, ended
    finally:
        for running in alive:
            running.worker.kill()


def _start(cell: Cell, launch: Launch, messages: _Messages) -> _Running:
    running = _Running(cell, launch(cell))
    threading.Thread(target=_read, args=(running, messages), daemon=True).start()
    return running


def _read(running: _Running, messages: _Messages) -> None:
    for message in running.worker.messages():
        messages.put((running, message))
    messages.put((running, None))


def _handle(
    running: _Running, message: FromWorker | None, emit: Callable[[Event], None]
) -> FinishedCell | Failed | None:
    """How the cell ended, if this message ends it."""
    match message:
        case None:
            words = running.worker.last_words()
            return Failed(words, by_user=False, passing=running.worker.was_killed())
        case RoundMessage(done):
            running.rounds.append(done)
            emit(done)
        case DoneMessage(peak_mb):
            return FinishedCell(running.cell, tuple(running.rounds), peak_mb)
        case Failed():
            return message
    return None
