"""What a node takes of its machine, as it says itself, and what the GPUs do."""

import asyncio
import shutil
import subprocess
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from swarm_node.extensions.page import checked
from swarm_node.extensions.page.history import History

EVERY = 10.0  # seconds between two looks
GPU_SECONDS = 5.0  # that nvidia-smi may take
QUERY = ("--query-gpu=utilization.gpu,memory.used", "--format=csv,noheader,nounits")


class Machine:
    """Figures over time, in bounded memory."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock, self._began = clock, clock()
        self._spent: tuple[float, float] | None = None  # when, CPU seconds until then
        self._history = History()
        self.columns = self._history.columns  # points are EVERY seconds wide, and `rounds` counts them

    async def follow(
        self, ask: Callable[[], Awaitable[Mapping[str, Any]]], tell: Callable[[int, dict[str, float]], None]
    ) -> None:
        """For ever. `ask`: the node's answer; `tell` gets the number of a point and its figures."""
        while True:
            if figures := self.measure((await ask()).get("used")):
                figures |= await asyncio.to_thread(gpus)
                number = int((self._clock() - self._began) / EVERY)
                self._history.add(number, figures)
                tell(number, figures)
            await asyncio.sleep(EVERY)

    def measure(self, used: Any) -> dict[str, float]:
        """`cpu`: cores that the node took since the last look; `memory` in bytes. Nothing where no node says it."""
        try:
            spent, memory = (checked.number(used[key]) for key in ("cpu_seconds", "memory_bytes"))
        except (LookupError, TypeError, ValueError):
            self._spent = None
            return {}
        before, now = self._spent, self._clock()
        self._spent = now, spent
        cpu = (
            {"cpu": (spent - before[1]) / (now - before[0])}
            if before and now > before[0] and spent >= before[1]
            else {}
        )
        return {"memory": memory, **cpu}


def gpus() -> dict[str, float]:
    """Of all NVIDIA GPUs of this machine: mean share of the time that they were busy, bytes in use."""
    if (program := shutil.which("nvidia-smi")) is None:
        return {}
    try:
        said = subprocess.run([program, *QUERY], capture_output=True, text=True, timeout=GPU_SECONDS, check=True)
        return gpu_figures(said.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return {}


def gpu_figures(said: str) -> dict[str, float]:
    """What nvidia-smi says, a line for each GPU: percent and MiB. It has words where a GPU has no such figure."""
    rows = [[each.strip() for each in line.split(",")] for line in said.splitlines() if line.count(",") == 1]
    busy = [float(share) / 100 for share, _ in rows if share.isdigit()]
    used = [float(size) * 2**20 for _, size in rows if size.isdigit()]
    return ({"gpu": sum(busy) / len(busy)} if busy else {}) | ({"gpu_memory": sum(used)} if used else {})
