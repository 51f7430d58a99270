"""A page at work: it follows the files, asks the node, and wakes the viewers."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from time import process_time
from typing import Any

from swarm_node.extensions.page.asking import Ask, Asking
from swarm_node.extensions.page.newest_first import NewestFirst
from swarm_node.extensions.page.node import NodeWatch
from swarm_node.extensions.page.rollouts import SamplesWatch
from swarm_node.extensions.page.watched import Watched

POLL = 0.5  # seconds between two looks at the files
BREATH = 0.001  # seconds between two portions of a long file at least, in which viewers are served


class Page:
    """What all viewers share."""

    def __init__(self, folder: Path, watched: Watched, ask: Ask, clock: Callable[[], float]) -> None:
        self.folder, self.watched, self._clock = folder, watched, clock
        self.samples = SamplesWatch(folder)
        self.asking = Asking(folder, ask, clock)
        self.viewers = 0
        self.loading = True  # whether there is nothing to show yet
        self.closing = False
        self.hooks: list[Callable[[], None]] = []  # called at each look
        self._changed: asyncio.Event = asyncio.Event()

    async def follow(self) -> None:
        """For ever, and for all viewers. A long history takes half of a core at most."""
        looked = -POLL
        while True:
            began = process_time()
            more = self.watched.read()
            spent = process_time() - began
            self.loading = self.loading and more and not self.watched.partial
            if not more or (not self.loading and self._clock() - looked >= POLL):
                looked = self._clock()
                self._look()
            await asyncio.sleep((BREATH if self.loading else max(BREATH, spent)) if more else POLL)

    def _look(self) -> None:
        self.samples.read()
        self.asking.tick()
        for hook in self.hooks:
            hook()
        self._wake()

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
        about = {"kind": self.watched.kind, "loading": self.loading, "partial": self.watched.partial}
        return {**about, **self.watched.state()}

    @property
    def node(self) -> NodeWatch | None:
        """All that the node has written. None where a simulation is shown, and until all has been read once."""
        watched = self.watched.whole if isinstance(self.watched, NewestFirst) else self.watched
        return watched if isinstance(watched, NodeWatch) else None
