"""What the running node answers, asked for only while somebody looks."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from swarm_node.extensions.page.processes import Processes

Ask = Callable[[Path], dict[str, Any]]  # as commands.status.ask

EVERY = 2.0  # seconds between two questions
LOOKED = 15.0  # seconds for which one look counts


class Asking:
    """Keeps the newest answer. The socket is asked in a thread: a node that hangs must not hang its page."""

    def __init__(self, home: Path, ask: Ask, clock: Callable[[], float]) -> None:
        self._home, self._ask, self._clock = home, ask, clock
        self._wanted_until = 0.0
        self._asked = -EVERY
        self._processes = Processes()
        self._running: asyncio.Task[dict[str, Any]] | None = None
        self.answer: dict[str, Any] = {}
        self.number = 0  # of answers so far

    def want(self) -> None:
        """Somebody looks."""
        self._wanted_until = self._clock() + LOOKED

    async def fresh(self) -> dict[str, Any]:
        """An answer not older than a few seconds; what was known before where the node is slow."""
        self.want()
        self.tick()
        if self._running is not None:
            await asyncio.wait({self._running}, timeout=EVERY)
            self.tick()
        return self.answer

    def tick(self) -> None:
        """Takes an answer that came, and asks again when it is time."""
        if self._running is not None:
            if not self._running.done():
                return
            failed = self._running.exception() is not None
            self.answer = {} if failed else self._running.result()
            self.number += 1
            self._running = None
        now = self._clock()
        if now < self._wanted_until and now - self._asked >= EVERY:
            self._asked = now
            self._running = asyncio.create_task(asyncio.to_thread(self._look))

    def _look(self) -> dict[str, Any]:
        answer = self._ask(self._home)
        pid = answer.get("pid")
        return answer | ({"processes": self._processes.look(pid)} if isinstance(pid, int) else {})
