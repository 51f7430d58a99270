"""Memory of nodes as a newcomer starts them: the peak of what all their processes take together, and who has it.

    python -m lab.benchmarks.node_memory --json

Counted is the proportional set size, PSS: a page that several processes have is divided by their number, so that the
sum is what the machine gives. All processes are read every third of a second, from the start to the end.
"""

import contextlib
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil

from lab.benchmarks import command
from lab.benchmarks.resident import resident

PAUSE = 0.3  # seconds between two looks, each of which takes some milliseconds
PARTS = {"Pss": "all", "Pss_Anon": "own", "Pss_File": "files"}
MODULE = re.compile(r"swarm_node[\w.]+|p2pd")
Memory = dict[str, dict[str, float]]  # MB by process and part


def proportional(process: psutil.Process) -> dict[str, float]:
    """MB of PSS: all, what is the process's own, and what is mapped from files."""
    lines = (line.split() for line in Path(f"/proc/{process.pid}/smaps_rollup").read_text().splitlines())
    return {PARTS[kind]: int(rest[0]) * 1024 / 1e6 for first, *rest in lines if (kind := first.rstrip(":")) in PARTS}


def family(nodes: Sequence[int]) -> Iterator[tuple[str, dict[str, float]]]:
    """What each process of these nodes has, by a name for it."""
    for number, pid in enumerate(nodes):
        with contextlib.suppress(psutil.Error, OSError):
            node = psutil.Process(pid)
            for process in [node, *node.children(recursive=True)]:
                with contextlib.suppress(psutil.Error, OSError):  # ended meanwhile
                    found = MODULE.findall(" ".join(process.cmdline()[1:])) if process.pid != pid else ["trainer"]
                    yield f"{number} {(found or ['other'])[0]} {process.pid}", proportional(process)


def measured(program: Path, nodes: int, options: Sequence[str], folder: Path) -> tuple[Memory, list[float]]:
    """The look with the highest sum, and the highest resident memory of each node's trainer."""
    started = []
    for number in range(nodes):
        line = [str(program), "run", "--home", str(folder / f"home-{number}"), *options]
        with (folder / f"log-{number}").open("wb") as log:
            started.append(subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=log, stderr=log))
    peak: Memory = {}
    highest = [0.0] * nodes
    try:
        while any(one.poll() is None for one in started):
            now = dict(family([one.pid for one in started]))
            peak = max(peak, now, key=total)
            for number, one in enumerate(started):
                with contextlib.suppress(OSError, StopIteration):
                    highest[number] = max(highest[number], resident("VmHWM", one.pid))
            time.sleep(PAUSE)
    finally:
        for one in started:
            one.terminate()
    for number, one in enumerate(started):
        if one.wait():
            raise SystemExit((folder / f"log-{number}").read_text())
    return peak, highest


def total(memory: Memory) -> float:
    return sum(of_process["all"] for of_process in memory.values())


def main() -> None:
    parser = command.parser("lab.benchmarks.node_memory", __doc__)
    parser.add_argument("--nodes", type=int, default=1, help="side by side, each alone (1)")
    parser.add_argument("--rounds", type=int, default=12, help="of each (12)")
    parser.add_argument("--program", type=Path, help="another installation's swarm-node (of this one)")
    parser.add_argument("rest", nargs="*", metavar="OPTION", help="of `swarm-node run`, behind --")
    arguments = parser.parse_args()
    options = ["--max-rounds", str(arguments.rounds), "--network.host", "127.0.0.1", "--network.no-mdns"]
    with tempfile.TemporaryDirectory(prefix="node-memory-") as folder:
        program = arguments.program or command.installed(Path(folder))
        peak, highest = measured(program, arguments.nodes, [*options, *arguments.rest], Path(folder))
    lines = [[name, *(f"{of_process[part]:.0f}" for part in PARTS.values())] for name, of_process in peak.items()]
    command.show(["MB at the peak: node, process", *PARTS.values()], lines)
    print(
        f"together {total(peak):.0f} MB; trainers at most {', '.join(f'{each:.0f}' for each in highest)} MiB resident"
    )
    command.finish(arguments, {"peak_mb": total(peak), "processes": peak, "trainer_highest_mib": highest})


if __name__ == "__main__":
    main()
