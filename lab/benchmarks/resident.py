"""Resident memory of a process, as the kernel counts it."""

from pathlib import Path


def resident(what: str, process: int | str = "self") -> float:
    """MiB. `what` is VmRSS (now) or VmHWM (the highest so far). Not getrusage: its figure is inherited from the parent.

    FileNotFoundError or ProcessLookupError where the process has gone, StopIteration while it is being waited for.
    """
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(f"{what}:")).split()[1]) / 1024
