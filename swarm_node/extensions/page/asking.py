"""What the running node answers, asked for only while somebody looks."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

Ask = Callable[[Path], dict[str, Any]]  # as commands.status.ask

EVERY = 2.0  # seconds between two questions
LOOKED = 15.0  # seconds for which one look counts


class Asking:
    """Keeps the newest answer. The socket is asked in a thread: a node that hangs must not hang its page."""

    def __init__(self, home: Path, ask: Ask, clock: Callable[[], float]) -> None:
        self._home, self._ask, self._clock = home, ask, clock
        self._wanted_until, self._asked = 0.0, -EVERY
        self._lock = asyncio.Lock()
        self.answer: dict[str, Any] = {}
        self.number = 0  # of answers so far

    def want(self) -> None:
        """Somebody looks."""
        self._wanted_until = self._clock() + LOOKED

    async def follow(self) -> None:
        """For ever."""
        while True:
            if self._clock() < self._wanted_until:
                await self._renew()
            await asyncio.sleep(EVERY / 4)

    async def fresh(self) -> dict[str, Any]:
        """An answer not older than a few seconds; what was known before where the node is slow."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._renew(), EVERY)
        return self.answer

    async def _renew(self) -> None:
        async with self._lock:
            if self._clock() - self._asked < EVERY:
                return
            try:
                self.answer = await asyncio.to_thread(self._ask, self._home)
            except Exception:  # noqa: BLE001  whatever lies in a folder that may be a stranger's
                self.answer = {}
            self._asked = self._clock()
            self.number += 1
