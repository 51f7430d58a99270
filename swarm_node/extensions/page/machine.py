"""What a node takes of its machine: CPU, memory, and what the GPUs do. Measured while the page is open."""

import asyncio
import shutil
import subprocess
from collections.abc import Callable
from contextlib import suppress

import psutil

from swarm_node.extensions.page.history import History

EVERY = 10.0  # seconds between two looks
GPU_SECONDS = 5.0  # that nvidia-smi may take
QUERY = ("--query-gpu=utilization.gpu,memory.used", "--format=csv,noheader,nounits")


class Machine:
    """Figures over time, in bounded memory. `measure` takes some milliseconds and belongs in a thread."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock, self._began = clock, clock()
        self._spent: tuple[int, float, float] | None = None  # process, when, CPU seconds until then
        self._history = History()
        self.columns = self._history.columns  # points are EVERY seconds wide, and `rounds` counts them

    async def follow(self, pid: Callable[[], int | None], tell: Callable[[int, dict[str, float]], None]) -> None:
        """For ever. `pid`: of the node, where one runs; `tell` gets the number of a point and its figures,
        none where no node runs."""
        while True:
            figures = await asyncio.to_thread(self.measure, pid())
            number = int((self._clock() - self._began) / EVERY)
            if figures:
                self._history.add(number, figures)
            tell(number, figures)
            await asyncio.sleep(EVERY)

    def measure(self, pid: int | None) -> dict[str, float]:
        """`cpu`: cores that the node took since the last look; `memory` in bytes. Nothing where no node runs."""
        if pid is None:
            return {}
        try:
            first = psutil.Process(pid)
            tree = [first, *first.children(recursive=True)]
        except (psutil.Error, ValueError, OverflowError):
            self._spent = None
            return {}
        taken = [_taken(process) for process in tree]
        now, spent = self._clock(), sum(seconds for seconds, _ in taken)
        figures = {"memory": sum(size for _, size in taken)}
        before, self._spent = self._spent, (pid, now, spent)
        if before and before[0] == pid and now > before[1]:
            figures["cpu"] = max(0.0, spent - before[2]) / (now - before[1])
        return figures | gpus()


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


def _taken(process: psutil.Process) -> tuple[float, float]:
    """CPU seconds, with those of its children that have ended; bytes, shared ones in parts where the system tells."""
    try:
        spent = float(sum(process.cpu_times()[:4]))
        with suppress(psutil.AccessDenied, AttributeError):
            return spent, float(process.memory_full_info().pss)
        return spent, float(process.memory_info().rss)
    except psutil.Error:  # it has ended meanwhile
        return 0.0, 0.0
