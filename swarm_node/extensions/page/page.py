"""A page at work: it follows the files, asks the node, and wakes the viewers."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from swarm_node.extensions.page.asking import Ask, Asking
from swarm_node.extensions.page.machine import Machine
from swarm_node.extensions.page.node import NodeWatch, SamplesWatch

POLL = 0.5  # seconds between two looks at the files
BREATH = 0.001  # seconds between two portions of a long file, in which viewers are served


class Page:
    """What all viewers share."""

    def __init__(self, home: Path, ask: Ask, clock: Callable[[], float]) -> None:
        self.node = NodeWatch(home)
        self.samples = SamplesWatch(home)
        self.asking = Asking(home, ask, clock)
        self.machine = Machine(clock)
        self.viewers = 0
        self.loading = True  # whether what was written before is still being read
        self.closing = False
        self.hooks: list[Callable[[], None]] = []  # called at each look
        self._changed: asyncio.Event = asyncio.Event()

    async def follow(self) -> None:
        """For ever, and for all viewers."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.asking.follow())
            tasks.create_task(self.machine.follow(self.asking.fresh, self._tell))
            while True:
                more = self.node.read()
                self.loading = self.loading and more
                if not self.loading:
                    self.samples.read()
                    for hook in self.hooks:
                        hook()
                    self._wake()
                await asyncio.sleep(BREATH if more else POLL)

    def close(self) -> None:
        self.closing = True
        self._wake()

    def _tell(self, number: int, figures: dict[str, float]) -> None:
        self.node.news.add({"machine": [number, figures]})

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def change(self, seconds: float) -> bool:
        """Whether the files were looked at again before the time was over."""
        try:
            await asyncio.wait_for(self._changed.wait(), seconds)
        except TimeoutError:
            return False
        return True

    def state(self) -> dict[str, Any]:
        """For a browser that begins."""
        return self.node.state() | {"loading": self.loading, "machine": self.machine.columns()}
