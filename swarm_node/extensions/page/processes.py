"""What the processes of a node take, by the process id that the node itself says."""

from contextlib import suppress
from typing import Any

import psutil

NAMES = {  # part of a command line -> what it is
    "network.process": "network",
    "scoring.server": "scoring",
    "scoring.forkserver": "scoring",
    "node.generator": "generator",
    "p2pd": "daemon of the network library",
    "commands.page": "page",
    "swarm_node page": "page",
}


class Processes:
    """Remembers processes between two looks: shares of a core are since the last one."""

    def __init__(self) -> None:
        self._known: dict[int, psutil.Process] = {}

    def look(self, pid: int) -> list[dict[str, Any]]:
        """The node's process first, then its children. Memory in bytes, shared pages counted in parts."""
        found: list[dict[str, Any]] = []
        present: dict[int, psutil.Process] = {}
        with suppress(psutil.Error):
            top = self._known.get(pid) or psutil.Process(pid)
            for process in [top, *(self._known.get(each.pid) or each for each in top.children(recursive=True))]:
                with suppress(psutil.Error):
                    present[process.pid] = process
                    found.append(_taken(process, "node" if process.pid == pid else ""))
        self._known = present
        return found


def _taken(process: psutil.Process, name: str) -> dict[str, Any]:
    with process.oneshot():
        line = " ".join(process.cmdline())
        known = next((what for part, what in NAMES.items() if part in line), process.name())
        return {
            "name": name or known,
            "pid": process.pid,
            "memory": _memory(process),
            "cpu": round(process.cpu_percent() / 100, 3),
            "threads": process.num_threads(),
        }


def _memory(process: psutil.Process) -> int:
    try:
        full = process.memory_full_info()
        return int(getattr(full, "pss", full.rss))
    except psutil.AccessDenied:
        return int(process.memory_info().rss)
