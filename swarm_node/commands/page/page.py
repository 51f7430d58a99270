"""A page at work: it follows the files, asks the node, and wakes the viewers."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from swarm_node.commands.page.asking import Ask, Asking
from swarm_node.commands.page.node import NodeWatch
from swarm_node.commands.page.rollouts import SamplesWatch
from swarm_node.commands.page.watched import Watched

POLL = 0.5  # seconds between two looks at the files
BREATH = 0.001  # seconds between two portions of a long file, in which viewers are served


class Page:
    """What all viewers share."""

    def __init__(self, folder: Path, watched: Watched, ask: Ask, clock: Callable[[], float]) -> None:
        self.folder, self.watched = folder, watched
        self.samples = SamplesWatch(folder)
        self.asking = Asking(folder, ask, clock)
        self.viewers = 0
        self.loading = True  # whether what was written before is still being read
        self.closing = False
        self.hooks: list[Callable[[], None]] = []  # called at each look
        self._changed: asyncio.Event = asyncio.Event()

    async def follow(self) -> None:
        """For ever."""
        while True:
            more = self.watched.read()
            if not more:
                self.loading = False
                self.samples.read()
                self.asking.tick()
                for hook in self.hooks:
                    hook()
                self._wake()
            await asyncio.sleep(BREATH if more else POLL)

    def close(self) -> None:
        """Lets the viewers go."""
        self.closing = True
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def change(self, seconds: float, gone: "asyncio.Task[None]") -> bool:
        """Whether the files were looked at again before the time was over, or the viewer had gone."""
        waiting = asyncio.create_task(self._changed.wait())
        done, _ = await asyncio.wait({waiting, gone}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        return bool(done)

    def state(self) -> dict[str, Any]:
        """For a browser that begins."""
        return {"kind": self.watched.kind, "loading": self.loading, **self.watched.state()}

    @property
    def node(self) -> NodeWatch | None:
        """None where a simulation is shown."""
        return self.watched if isinstance(self.watched, NodeWatch) else None
