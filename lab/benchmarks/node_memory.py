"""Memory of nodes as a newcomer starts them: the peak of all their processes together, and each
process's part of it.

    # other options are a node's
    python -m lab.benchmarks.node_memory --json --model.name FOLDER --model.lora-rank 16

Memory is the proportional set size, PSS: a page that several processes share is divided by their
number, so that the sum is what the machine gives. All processes are read every third of a second,
from the start to the end.
"""

import contextlib
import re
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import psutil

from lab.benchmarks import command

PAUSE = 0.3  # seconds between two looks, each of which takes some milliseconds
MODULE = re.compile(r"swarm_node\.[\w.]+|p2pd")


def looked(nodes: Sequence[int]) -> dict[str, float]:
    """MB of PSS of each process of these nodes, by a name for it."""
    seen = {}
    for number, pid in enumerate(nodes):
        for process in (
            [node := psutil.Process(pid), *node.children(recursive=True)]
            if psutil.pid_exists(pid)
            else []
        ):
            with contextlib.suppress(psutil.Error):  # ended meanwhile
                found = MODULE.search(" ".join(process.cmdline()[1:]))
                size = process.memory_full_info().pss / 1e6
                seen[
                    f"{number} {found[0] if found and process != node else 'trainer'} {process.pid}"
                ] = size
    return seen


def main() -> None:
    parser = command.parser("lab.benchmarks.node_memory", __doc__)
    parser.add_argument("--nodes", type=int, default=1, help="side by side, each alone (1)")
    parser.add_argument("--rounds", type=int, default=12, help="of each (12)")
    arguments, options = parser.parse_known_args()
    peak: dict[str, float] = {}
    with (
        tempfile.TemporaryDirectory(prefix="node-memory-") as folder,
        contextlib.ExitStack() as stack,
    ):
        line = [str(command.installed(Path(folder))), "run", "--max-rounds", str(arguments.rounds)]
        line += ["--network.host", "127.0.0.1", "--network.no-mdns", *options, "--home"]
        started = [
            subprocess.Popen(
                [*line, f"{folder}/home-{n}"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
            )
            for n in range(arguments.nodes)
        ]
        for process in started:
            stack.callback(process.terminate)
        while any(process.poll() is None for process in started):
            peak = max(
                peak,
                looked([process.pid for process in started]),
                key=lambda seen: sum(seen.values()),
            )
            time.sleep(PAUSE)
        if any(process.returncode for process in started):
            raise SystemExit("a node failed")
    command.show(
        ["MB at the peak: node, process", "PSS"],
        [[name, f"{size:.0f}"] for name, size in peak.items()],
    )
    print(f"together {sum(peak.values()):.0f} MB")
    command.finish(arguments, {"peak_mb": sum(peak.values()), "processes": peak})


if __name__ == "__main__":
    main()
