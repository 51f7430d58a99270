"""Keeps one network process running: starts it, speaks with it, and starts another when it dies or
hangs.
"""

import asyncio
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random

from swarm_node.common.awake_loop import awake_timeout
from swarm_node.common.backoff import backoff, jittered
from swarm_node.common.channel import AsyncChannel, BrokenFrame
from swarm_node.common.children import Process, clean_environment, ending, start
from swarm_node.common.errors import UserError, last_line, reason_of
from swarm_node.common.files import open_to_read
from swarm_node.network.process.messages import NETWORK, FromNetwork, FromTrainer, Stop
from swarm_node.network.transport.leftovers import socket_room

COMMAND = (sys.executable, "-P", "-m", "swarm_node.network.process.daemon")
WAITING = 256  # messages for the network process: far more than a round
# A process that says nothing for so long hangs. Time in which this process did not run either does
# not count: else the trainer of a laptop that is opened again would kill a process that slept, too
SILENCE_SECONDS = 60.0
SOUND_SECONDS = 60.0  # a process that lived this long had no fault of its own
FIRST_RESTART = 0.5  # seconds until the next process starts; doubles with each that dies early
LAST_RESTART = 30.0  # seconds
STOP_SECONDS = 4.0  # to say goodbye


class Supervisor:
    """Belongs to one asyncio loop. `opening` makes the first messages for a new process, from the
    folder for its sockets, the only one that it may write to; `receive` takes each message of the
    process.
    """

    def __init__(
        self,
        opening: Callable[[Path], Sequence[FromTrainer]],
        receive: Callable[[FromNetwork], None],
        say: Callable[[str, bool], None],
        log: Path,
        random: Random,
        command: Sequence[str] = COMMAND,
    ) -> None:
        """`log` takes what the process prints, which is nothing unless our code has a bug."""
        self.lives = 0  # processes started
        self.channel: AsyncChannel[FromNetwork, FromTrainer] | None = None  # while a process runs
        self._opening, self._receive, self._say = opening, receive, say
        self._log, self._random, self._command = log, random, command

    def send(self, message: FromTrainer) -> None:
        """Never waits. While no process runs, the message is lost: `opening` holds what the next
        one must know.
        """
        if self.channel is not None:
            self.channel.send(message)

    async def run(self) -> None:
        """Runs for ever. When cancelled, asks the process to end, and kills it if it does not."""
        early = 0  # processes in a row that soon died
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            reason = await self._life()
            early = 0 if loop.time() - began > SOUND_SECONDS else early + 1
            wait = jittered(backoff(early, FIRST_RESTART, LAST_RESTART), self._random)
            self._say(
                f"network process {reason}; training continues, another one starts in {wait:.1f} s "
                "(network.log in the home says more)",
                True,
            )
            await asyncio.sleep(wait)

    async def _life(self) -> str:
        """Runs one process from start to end; returns why it ended."""
        try:
            with socket_room() as folder:
                return await self._life_in(folder)
        except UserError as error:
            return f"cannot be started ({error})"

    async def _life_in(self, folder: Path) -> str:
        try:
            process, ours = start(self._command, self._log, clean_environment())
        except OSError as error:
            return f"cannot be started ({reason_of(error)})"
        self.lives += 1
        streams = await asyncio.open_connection(sock=ours)
        channel = self.channel = AsyncChannel(streams, NETWORK.up, NETWORK.down, WAITING)
        for message in self._opening(folder):
            channel.send(message)
        pumping = asyncio.create_task(channel.pump())
        try:
            reason = await self._listen(channel)
        except asyncio.CancelledError:
            channel.send(Stop())
            with suppress(TimeoutError):
                async with awake_timeout(STOP_SECONDS):
                    await self._listen(channel)
            raise
        finally:
            self.channel = None
            pumping.cancel()
            channel.close()
            code = await _reap(process)
        return reason or f"{ending(code)}{self._last_words()}"

    async def _listen(self, channel: AsyncChannel[FromNetwork, FromTrainer]) -> str:
        """Receives until the stream ends (""), or returns why the process is to be killed."""
        try:
            while True:
                async with awake_timeout(SILENCE_SECONDS):
                    message = await channel.receive()
                if message is None:
                    return ""
                self._receive(message)
        except TimeoutError:
            return f"said nothing for {SILENCE_SECONDS:.0f} s and was killed"
        except BrokenFrame as error:
            return f"sent nonsense ({error}) and was killed"

    def _last_words(self) -> str:
        try:
            with open_to_read(self._log, follow=False) as file:
                last = last_line(file.read(256 * 1024).decode(errors="replace"))
        except OSError:
            return ""
        return f": {last} (see {self._log})" if last else ""


async def _reap(process: Process) -> int:
    """The exit code of a process whose channel is closed. Kills it if it does not end by itself
    within a second.
    """
    try:
        for _ in range(20):
            if process.poll() is not None:
                break
            await asyncio.sleep(0.05)
    finally:  # also if the trainer stops meanwhile
        process.kill()
        code = process.wait()
    return code
