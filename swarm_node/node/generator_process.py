"""The trainer's end of a generator process: start it, order rounds, take its messages, start another if it dies."""

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
from swarm_node.common import private
from swarm_node.node.generator_messages import Message, Order, generator_environment, read_message

COMMAND = (sys.executable, "-P", "-m", "swarm_node.node.generator")


class GeneratorProcess:
    """One process at a time. A thread reads its messages, so the process never waits for a busy trainer."""

    def __init__(self, order: Order, threads: int, log: Path, command: Sequence[str] = COMMAND) -> None:
        """`log` takes the process's stderr; `threads`: how many it uses for tensor maths."""
        self._order, self._threads, self._log, self._command = order, threads, log, command
        self._process: subprocess.Popen[str] | None = None
        self._messages: SimpleQueue[Message | None] = SimpleQueue()  # None: the process closed the pipe

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def start(self) -> None:
        self._messages = SimpleQueue()
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
                start_new_session=True,  # the trainer handles Ctrl-C
            )
        threading.Thread(target=_read, args=(self._process, self._messages), daemon=True).start()
        self._send(self._order.line())

    def generate(self, now: Round) -> None:
        """Order this round, to be generated after the rounds ordered before."""
        self._send(dumps({"generate": now}) + "\n")

    def take(self, block: bool) -> Message | None:
        """Its next message; None when it has ended. Without `block`, raises `queue.Empty` if there is none yet."""
        return self._messages.get(block)

    def stop(self) -> str:
        """Kill it if it still runs, and wait. Returns how it ended."""
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

    def _send(self, line: str) -> None:
        assert self._process is not None and self._process.stdin is not None
        with contextlib.suppress(OSError):  # it died: the reading thread reports that
            self._process.stdin.write(line)
            self._process.stdin.flush()


def _read(process: "subprocess.Popen[str]", messages: "SimpleQueue[Message | None]") -> None:
    assert process.stdout is not None
    with contextlib.suppress(ValueError, OSError):  # the pipe was closed
        for line in process.stdout:
            message = read_message(line)
            if message is not None:
                messages.put(message)
    messages.put(None)
