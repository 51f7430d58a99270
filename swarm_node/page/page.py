"""A page at work: it follows a node's files, asks the node, measures what the node uses, and wakes
the viewers.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from swarm_node.common.asked import installed, said
from swarm_node.page import checked
from swarm_node.page.asking import Ask, Asking
from swarm_node.page.history import History
from swarm_node.page.node import NodeWatch, SamplesWatch

POLL = 0.5  # seconds between two looks at the files
BREATH = 0.001  # seconds between two portions of a long file, in which viewers are served
EVERY = 10.0  # seconds between two measurements
GPU_SECONDS = 5.0  # that nvidia-smi may take
QUERY = ("--query-gpu=utilization.gpu,memory.used", "--format=csv,noheader,nounits")


class Machine:
    """What the node and the GPUs of its machine use, over time, in bounded memory."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock, self._began = clock, clock()
        self._spent: tuple[float, float] | None = None  # when, CPU seconds until then
        self._history = History()
        # Points are EVERY seconds wide, and `rounds` counts them
        self.columns = self._history.columns

    async def follow(
        self,
        ask: Callable[[], Awaitable[Mapping[str, Any]]],
        tell: Callable[[int, dict[str, float]], None],
    ) -> None:
        """Measures for ever. `ask` gives the node's answer; `tell` gets the number of a point and
        its figures.
        """
        while True:
            if figures := self.measure((await ask()).get("used")):
                figures |= await asyncio.to_thread(gpus)
                number = int((self._clock() - self._began) / EVERY)
                self._history.add(number, figures)
                tell(number, figures)
            await asyncio.sleep(EVERY)

    def measure(self, used: Any) -> dict[str, float]:
        """`cpu`: cores that the node used since the last call; `memory` in bytes. Empty if `used`
        lacks these.
        """
        try:
            spent, memory = (checked.number(used[key]) for key in ("cpu_seconds", "memory_bytes"))
        except (LookupError, TypeError, ValueError):
            self._spent = None
            return {}
        before, now = self._spent, self._clock()
        self._spent = now, spent
        if before and now > before[0] and spent >= before[1]:
            return {"memory": memory, "cpu": (spent - before[1]) / (now - before[0])}
        return {"memory": memory}


def gpus() -> dict[str, float]:
    """Measures all NVIDIA GPUs of this machine together. `gpu`: mean share of the time in which
    they were busy; `gpu_memory`: bytes in use.
    """
    program = installed("nvidia-smi")
    try:
        return gpu_figures(said(program, QUERY, GPU_SECONDS)) if program else {}
    except ValueError:
        return {}


def gpu_figures(said: str) -> dict[str, float]:
    """Figures from nvidia-smi: it prints a line for each GPU, percent and MiB, or words where there
    is no figure.
    """
    rows = [
        [each.strip() for each in line.split(",")]
        for line in said.splitlines()
        if line.count(",") == 1
    ]
    busy = [float(share) / 100 for share, _ in rows if share.isdigit()]
    used = [float(size) * 2**20 for _, size in rows if size.isdigit()]
    figures: dict[str, float] = {}
    if busy:
        figures["gpu"] = sum(busy) / len(busy)
    if used:
        figures["gpu_memory"] = sum(used)
    return figures


class Page:
    """The state that all viewers of a page share."""

    def __init__(self, home: Path, ask: Ask, clock: Callable[[], float]) -> None:
        self.node = NodeWatch(home)
        self.samples = SamplesWatch(home)
        self.asking = Asking(home, ask, clock)
        self.machine = Machine(clock)
        self.viewers = 0
        self.loading = True  # whether what was written before is still being read
        self.closing = False
        self.hooks: list[Callable[[], None]] = []  # called whenever the files were read
        self._changed: asyncio.Event = asyncio.Event()

    async def follow(self) -> None:
        """Follows the files, the node and its machine for ever, on behalf of all viewers."""
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
        """Waits until the files are read again or the page closes. False where neither happens in
        time.
        """
        try:
            await asyncio.wait_for(self._changed.wait(), seconds)
        except TimeoutError:
            return False
        return True

    def state(self) -> dict[str, Any]:
        """All that a browser needs when it opens the page."""
        return self.node.state() | {"loading": self.loading, "machine": self.machine.columns()}
