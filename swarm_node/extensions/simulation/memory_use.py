"""Memory and time of processors that a cell takes."""

import contextlib
import os
from collections.abc import Callable, Iterator

import psutil


def family(pid: int | None = None) -> list[psutil.Process]:
    """A process, this one by default, and its living descendants, such as scoring processes."""
    with contextlib.suppress(psutil.Error):
        head = psutil.Process(pid or os.getpid())
        return [head, *head.children(recursive=True)]
    return []


def family_mb(pid: int | None = None) -> float:
    """Their resident memory, in MB."""
    return round(sum(_measured(pid, lambda process: process.memory_info().rss)) / 1e6, 1)


def family_cpu() -> float:
    """CPU seconds of this process and its descendants."""
    return sum(_measured(None, lambda process: sum(process.cpu_times()[:2])))


def _measured(pid: int | None, measure: Callable[[psutil.Process], float]) -> Iterator[float]:
    for process in family(pid):
        with contextlib.suppress(psutil.Error):  # ended meanwhile
            yield measure(process)
