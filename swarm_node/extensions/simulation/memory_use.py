"""Memory and time of processors that a cell takes."""

import contextlib

import psutil


def family_mb() -> float:
    """Resident memory of this process and its descendants, in MB."""
    here = psutil.Process()
    total = 0
    for process in [here, *here.children(recursive=True)]:
        with contextlib.suppress(psutil.Error):  # ended meanwhile
            total += process.memory_info().rss
    return round(total / 1e6, 1)


def family_cpu() -> float:
    """CPU seconds of this process and its living descendants, such as scoring processes."""
    here = psutil.Process()
    total = 0.0
    for process in [here, *here.children(recursive=True)]:
        with contextlib.suppress(psutil.Error):
            times = process.cpu_times()
            total += times.user + times.system
    return total
