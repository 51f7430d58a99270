"""Keeps one network process running: starts it, speaks with it, and starts another when it dies or hangs."""

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import BinaryIO

from swarm_node.common import private
from swarm_node.common.backoff import backoff, jittered
from swarm_node.common.children import clean_environment
from swarm_node.common.errors import UserError
from swarm_node.network.process import messages
from swarm_node.network.process.messages import BrokenFrame, Frame, Outbox, Stop
from swarm_node.network.transport.leftovers import socket_room

COMMAND = (sys.executable, "-P", "-m", "swarm_node.network.process.daemon")
OUTBOX_FRAMES = 256  # for the network process: far more than a round
SILENCE_SECONDS = 60.0  # a process that says nothing for so long hangs
SOUND_SECONDS = 60.0  # one that lived this long had no fault of its own
FIRST_RESTART = 0.5  # seconds until the next one starts; doubles with each that dies early
LAST_RESTART = 30.0  # seconds
STOP_SECONDS = 4.0  # to say goodbye


class Supervisor:
    """Belongs to one asyncio loop. `opening`: what a new process is told first, given the folder for its sockets, the
    only one that it may write to; `receive`: takes what it says."""

    def __init__(
        self,
        opening: Callable[[Path], Sequence[Frame]],
        receive: Callable[[Frame], None],
        say: Callable[[str, bool], None],
        log: Path,
        random: Random,
        command: Sequence[str] = COMMAND,
    ) -> None:
        """`log` takes the standard error of the process, which is silent unless something of ours is wrong."""
        self.lives = 0  # processes started
        self.running = False
        self._opening, self._receive, self._say = opening, receive, say
        self._log, self._random, self._command = log, random, command
        self._outbox = Outbox(OUTBOX_FRAMES)

    @property
    def dropped(self) -> int:
        return self._outbox.dropped

    def send(self, frame: Frame) -> None:
        """Never waits. While no process runs, frames wait for the next."""
        self._outbox.put(frame)

    async def run(self) -> None:
        """For ever; when cancelled, the process is asked to go, and made to."""
        early = 0  # processes in a row that soon died
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            reason = await self._life()
            early = 0 if loop.time() - began > SOUND_SECONDS else early + 1
            wait = jittered(backoff(early, FIRST_RESTART, LAST_RESTART), self._random)
            self._say(f"network process {reason}; training goes on, another one starts in {wait:.1f} s", True)
            await asyncio.sleep(wait)

    async def _life(self) -> str:
        """One process, from start to end; why it ended."""
        try:
            with socket_room() as folder:
                return await self._life_in(folder)
        except UserError as error:
            return f"cannot be started ({error})"

    async def _life_in(self, folder: Path) -> str:
        ours, theirs = socket.socketpair()
        try:
            process = self._spawn(theirs)
        except OSError as error:
            ours.close()
            return f"cannot be started ({error.strerror})"
        finally:
            theirs.close()
        self.lives += 1
        reader, writer = await asyncio.open_connection(sock=ours)
        self._outbox.clear()  # what waited is in the opening, or of a time gone by
        for frame in self._opening(folder):
            self._outbox.put(frame)
        pumping = asyncio.create_task(self._outbox.pump(writer))
        self.running = True
        try:
            reason = await self._listen(reader)
        except asyncio.CancelledError:
            self._outbox.put(Stop())
            with suppress(TimeoutError):
                async with asyncio.timeout(STOP_SECONDS):
                    await self._listen(reader)
            raise
        finally:
            self.running = False
            pumping.cancel()
            writer.close()
            code = await _reap(process)
        return reason or f"ended with code {code}{self._last_words()}"

    async def _listen(self, reader: asyncio.StreamReader) -> str:
        """Until the stream ends (""), or for a reason of ours."""
        try:
            while True:
                async with asyncio.timeout(SILENCE_SECONDS):
                    frame = await messages.read(reader)
                if frame is None:
                    return ""
                self._receive(frame)
        except TimeoutError:
            return f"said nothing for {SILENCE_SECONDS:.0f} s and was killed"
        except BrokenFrame as error:
            return f"sent nonsense ({error}) and was killed"

    def _spawn(self, theirs: socket.socket) -> subprocess.Popen[bytes]:
        with _writable(self._log) as log:
            return subprocess.Popen(
                [*self._command, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                env=clean_environment(),
                pass_fds=(theirs.fileno(),),
                start_new_session=True,  # Ctrl-C is for the trainer: the network says goodbye after the last round
            )

    def _last_words(self) -> str:
        try:
            with self._log.open("rb") as file:
                lines = file.read(256 * 1024).decode(errors="replace").strip().splitlines()
        except OSError:
            return ""
        return f": {lines[-1][:200]} (see {self._log})" if lines else ""


async def _reap(process: subprocess.Popen[bytes]) -> int:
    """The exit code; made to end where it does not by itself, now that nobody listens to it."""
    try:
        for _ in range(20):
            if process.poll() is not None:
                break
            await asyncio.sleep(0.05)
    finally:  # also where the trainer leaves meanwhile
        process.kill()
        code = process.wait()
    return code


def _writable(path: Path) -> BinaryIO:
    """The emptied log; nothing, where it cannot be written."""
    try:
        return private.open_to_write(path)
    except OSError:
        return open(os.devnull, "wb")
