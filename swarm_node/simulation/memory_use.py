"""How much memory a cell takes."""

import contextlib

import psutil


def family_mb() -> float:
    """Resident memory of this process and all it started, in MB."""
    here = psutil.Process()
    total = 0
    for process in [here, *here.children(recursive=True)]:
        with contextlib.suppress(psutil.Error):  # ended meanwhile
            total += process.memory_info().rss
    return round(total / 1e6, 1)
