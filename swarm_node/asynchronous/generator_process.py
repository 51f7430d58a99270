"""The trainer's end of a generator process: start, order rounds, take what was written, start again after a death."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from json import dumps
from pathlib import Path
from queue import SimpleQueue

from protocol.messages import Round
from swarm_node.asynchronous.messages import Order, Said, generator_environment, read_message
from swarm_node.common import private

COMMAND = (sys.executable, "-m", "swarm_node.assembly.generator")


class GeneratorProcess:
    """One process at a time. Reading is done by a thread, so that the process never waits for a busy trainer."""

    def __init__(self, order: Order, threads: int, log: Path, command: Sequence[str] = COMMAND) -> None:
        """`log` takes what the process says on stderr; `threads` are its own for tensor maths."""
        self._order, self._threads, self._log, self._command = order, threads, log, command
        self._process: subprocess.Popen[str] | None = None
        self._said: SimpleQueue[Said | None] = SimpleQueue()  # None: its end of the pipe is closed

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def start(self) -> None:
        self._said = SimpleQueue()
        with private.open_to_write(self._log, append=True) as stderr:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                encoding="utf-8",
                env=generator_environment(self._threads),
                pass_fds=(self._order.descriptor,),
                start_new_session=True,  # Ctrl-C is for the trainer to answer
            )
        threading.Thread(target=_read, args=(self._process, self._said), daemon=True).start()
        self._tell(self._order.line())

    def generate(self, now: Round) -> None:
        """Let it generate this round, after those it was told before."""
        self._tell(dumps({"generate": now}) + "\n")

    def take(self, block: bool) -> Said | None:
        """The next thing it said; None when it has ended. Raises `queue.Empty` if it has not, and not `block`."""
        return self._said.get(block)

    def stop(self) -> str:
        """Kill it if it lives, and wait; how it ended."""
        process = self._process
        if process is None:
            return ""
        ended = process.poll()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        code = process.wait() if ended is None else ended
        with contextlib.suppress(OSError):
            assert process.stdin is not None
            process.stdin.close()
        self._process = None
        if code >= 0:
            return f"it ended with status {code}"
        hint = ", perhaps for lack of memory" if -code == signal.SIGKILL else ""
        return f"it was killed by {signal.Signals(-code).name}{hint}"

    def _tell(self, line: str) -> None:
        assert self._process is not None and self._process.stdin is not None
        with contextlib.suppress(OSError):  # it died: its end is received like any other
            self._process.stdin.write(line)
            self._process.stdin.flush()


def _read(process: "subprocess.Popen[str]", said: "SimpleQueue[Said | None]") -> None:
    assert process.stdout is not None
    with contextlib.suppress(ValueError, OSError):  # closed under us
        for line in process.stdout:
            message = read_message(line)
            if message is not None:
                said.put(message)
    said.put(None)
