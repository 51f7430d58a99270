"""The memory of a cell."""

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
