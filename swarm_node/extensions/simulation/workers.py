"""Processes that run cells: on this machine, or wherever a command prefix such as `ssh host` starts them."""

import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path

from swarm_node.common.children import ending
from swarm_node.common.errors import UserError
from swarm_node.extensions.simulation.arms import Cell
from swarm_node.extensions.simulation.elsewhere import origin
from swarm_node.extensions.simulation.engines.engine import Launch, Worker
from swarm_node.extensions.simulation.worker_messages import (
    LOST,
    FromWorker,
    Order,
    node_environment,
    said_by,
    spawned,
    worker_environment,
    write_order,
)
from swarm_node.settings import SimulationConfig

MODULE = ("-P", "-m", "swarm_node.extensions.simulation.worker")
WORKER = (sys.executable, *MODULE)
# A prefix that waits for its turn, as srun does, would not notice that the driver was killed.
GUARD = ("setpriv", "--pdeathsig", "TERM") if shutil.which("setpriv") else ()
PATIENCE = 5.0  # seconds
PLAIN = re.compile(r"[\w@%+=:,./~-]+")  # what every shell passes on as it is


class LocalWorker:
    """Implements Worker: a process of this machine, which may be one that leads to another machine."""

    def __init__(self, process: "subprocess.Popen[bytes]", order: Order, patience: float = 0.0) -> None:
        """`patience`: seconds that the process has to end by itself."""
        self._process, self._order, self._patience = process, order, patience

    def messages(self) -> Iterator[FromWorker]:
        """See Worker."""
        return said_by(self._process, self._order)

    def last_words(self) -> str:
        """See Worker."""
        code = self._process.wait()
        return f"the worker {ending(code)}" + (" and no message" if code >= 0 else "")

    def lost(self) -> bool:
        """See Worker."""
        return self._process.wait() == LOST

    def kill(self) -> None:
        """The whole process group, also after a normal end, so that nothing that a worker started outlives it. One on
        another machine ends when its pipe does, and srun must see that end, or its job would go on."""
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
        if self._patience:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(self._patience)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


def local_launch(config: SimulationConfig, log: Callable[[Cell], Path], command: Sequence[str] = WORKER) -> Launch:
    """Workers that this command starts, `workers_by` before it. `log` names the file for a worker's stderr."""
    prefixes = prefixes_of(config)
    there = origin() if prefixes else None
    numbers = count()

    def launch(cell: Cell) -> Worker:
        words = list(command)
        if prefixes:
            words = [*GUARD, *prefixes[next(numbers) % len(prefixes)], *remote_command(config)]
        with log(cell).open("wb") as stderr:
            # what carries a worker to another machine may need an agent or a ticket of the user's
            environment = {**os.environ, **node_environment(config)} if prefixes else worker_environment(config)
            process = spawned(words, stderr, environment)
        return LocalWorker(process, write_order(config, cell, there), PATIENCE if prefixes else 0.0)

    return launch


def prefixes_of(config: SimulationConfig) -> list[list[str]]:
    """The words of each prefix. UserError where there is none between two semicolons, or the engine takes none."""
    if not config.workers_by:
        return []
    try:
        prefixes = [shlex.split(prefix) for prefix in config.workers_by.split(";")]
    except ValueError as error:
        raise UserError(f"--workers-by {config.workers_by!r}: {str(error).lower()}") from error
    if not all(prefixes):
        raise UserError(f"--workers-by {config.workers_by!r}: a prefix is empty; give such as 'ssh host1; ssh host2'")
    if config.engine not in ("memory", "process"):
        raise UserError(f"--workers-by is for --engine memory and process, not {config.engine}")
    return prefixes


def remote_command(config: SimulationConfig) -> list[str]:
    """What a prefix is put before. ssh gives it to a shell and srun does not, so every word is plain."""
    python = config.workers_python or sys.executable
    if not PLAIN.fullmatch(python):
        raise UserError(f"--workers-python {python!r}: give a path without spaces and quotes")
    variables = [f"{name}={value}" for name, value in node_environment(config).items()]
    return ["env", *variables, python, *MODULE]
