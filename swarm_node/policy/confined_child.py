"""A process that computes with what came with a model, and can do nothing else.

Two parts of a model folder are programs: its chat template, and what its tokenizer does with a text
(normalizers, regular expressions). Both may take any time and memory, at some texts only, so to try
them when the model is loaded is not enough. Each runs in a child of its own (template_child.py,
tokenizer_child.py), which enters the sandbox of scoring before it reads the first byte of the
model: no file, no socket, no other process, bounded memory and CPU time (scoring/sandbox.py).

A child says when it is confined. It gets the program, in one or several frames, then one frame for
each question, and answers each question with one frame. It stays for the next question, since a
start takes a quarter of a second.
"""

import os
import resource
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from swarm_node.common.awake import Patience
from swarm_node.common.children import clean_environment
from swarm_node.policy.confined import READY
from swarm_node.scoring.contract import BrokenFrame, Reader, encode

WALL_SECONDS = 60.0  # for an answer; on a machine that is busy, two seconds of CPU time take longer


class NotStarted(Exception):
    """The child did not start; the message says how far it came."""


class Ended(Exception):
    """The child ended before it answered, or did not answer in time."""


class ConfinedChild:
    """A process of one module, with one program."""

    def __init__(
        self, module: str, program: Sequence[Any], wall_seconds: float = WALL_SECONDS
    ) -> None:
        """`program`: the frames that the child reads when it is confined. `wall_seconds`: for its
        start, and for each answer.
        """
        self._wall_seconds = wall_seconds
        self._module = module
        self._program = program
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: socket.socket | None = None
        self._waiting: Patience | None = None  # at the connection
        self.fresh = False  # whether it has answered nothing yet
        self.out_of_time = False  # whether the last one ended because its time was over
        self.alone = threading.Lock()

    @property
    def runs(self) -> bool:
        """Whether there is a process."""
        return self._process is not None

    def start(self) -> None:
        """Starts the process. Raises NotStarted."""
        self._connection, theirs = socket.socketpair()
        self._waiting = Patience(self._connection)
        self._waiting.begin(self._wall_seconds)
        ours = str(os.getpid())
        line = [sys.executable, "-s", "-P", "-m", self._module, ours, str(theirs.fileno())]
        with theirs:
            self._process = subprocess.Popen(
                line,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=clean_environment(),
                pass_fds=(theirs.fileno(),),
                start_new_session=True,  # Ctrl-C is for this process
            )
        self._reader = Reader(self._waiting.recv)
        self.fresh = True
        try:
            ready = self._reader.read()
            for frame in self._program if ready == READY else ():
                self._waiting.sendall(encode(frame))
        except (OSError, BrokenFrame) as error:
            self.close()
            raise NotStarted("its process did not start") from error
        if ready != READY:
            self.close()
            raise NotStarted("its process ended while it started")

    def ask(self, question: Mapping[str, Any]) -> dict[str, Any]:
        """The answer of the process. Raises Ended."""
        assert self._waiting is not None
        try:
            self._waiting.begin(self._wall_seconds)
            self._waiting.sendall(encode(question))
            answer = self._reader.read()
        except (OSError, BrokenFrame) as error:
            self._ended(late=isinstance(error, TimeoutError))
            raise Ended from error
        if not isinstance(answer, dict):
            self._ended()
            raise Ended
        self.fresh = False
        return answer

    def ask_within(self, seconds: int, question: Mapping[str, Any]) -> dict[str, Any]:
        """The answer, if the process has used so many seconds of CPU time by then, all in all.
        Raises Ended. Where a system cannot change the limit of another process, the limit is that
        of its whole life, and the clock's.
        """
        assert self._process is not None
        if hasattr(resource, "prlimit"):
            what = resource.RLIMIT_CPU
            # It may have ended: to ask it then says so
            with suppress(OSError, ValueError):
                hard = resource.prlimit(self._process.pid, what)[1]
                resource.prlimit(self._process.pid, what, (seconds, hard))
        return self.ask(question)

    def _ended(self, late: bool = False) -> None:
        """Ends what is left of the process, and says why it ended."""
        process = self._process
        self.close()
        ended_by = -process.returncode if process and process.returncode else 0
        self.out_of_time = late or ended_by == signal.SIGXCPU

    def close(self) -> None:
        """Ends the process."""
        if self._connection is not None:
            self._connection.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._process = self._connection = self._waiting = None
