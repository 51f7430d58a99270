"""Does the memory of a node's network grow? Real nodes on loopback at ten times the usual rate, watched for long.

    python -m lab.studies.soak --minutes 120 --json

A round of 9 groups of 10 KB a second, where one in ten seconds is usual for a small model; with `--round-seconds 0.5`
a leak shows in half the time. All else is as in `lab.benchmarks.network`. The slope is that of a line
through the second half of the samples, by least squares.
"""

import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from statistics import linear_regression
from tempfile import TemporaryDirectory

import psutil

from lab.benchmarks import command, network
from swarm_node.settings import NetworkConfig

ROUND_SECONDS = 1.0
SAMPLE_SECONDS = 20.0
PARTS = ("network process", "p2pd")


def main() -> None:
    parser = command.parser("lab.studies.soak", __doc__)
    parser.add_argument("--minutes", type=float, default=120.0)
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--round-seconds", type=float, default=ROUND_SECONDS)
    arguments = parser.parse_args()
    if arguments.minutes * 60 < 4 * SAMPLE_SECONDS:
        parser.error(f"a slope needs two samples, one every {SAMPLE_SECONDS:g} s: at least 1.4 --minutes")
    with ExitStack() as stack:
        work = Path(stack.enter_context(TemporaryDirectory(prefix="swarm-soak-")))
        config = NetworkConfig(host="127.0.0.1", mdns=False, exchange_seconds=arguments.round_seconds)
        members = network.join(stack, work, arguments.nodes, config)
        samples, received = watched(members, arguments.minutes * 60, arguments.round_seconds)
    half = samples[len(samples) // 2 :]
    slopes = {
        part: 3600 * linear_regression([sample["seconds"] for sample in half], [sample[part] for sample in half]).slope
        for part in PARTS
    }
    lines = []
    for part in PARTS:
        sizes = [sample[part] for sample in samples]
        lines.append([part, *(f"{size:.1f}" for size in (sizes[0], sizes[-1], max(sizes))), f"{slopes[part]:+.2f}"])
    command.show(["MB of a node", "start", "end", "largest", "slope of the second half, MB per hour"], lines)
    print(f"\n{received} groups received in {arguments.minutes:g} minutes by {arguments.nodes} nodes")
    growth = max(samples[-1][part] / half[0][part] for part in PARTS)
    result = {"ratio": growth, "slope_mb_per_hour": slopes, "samples": samples}
    command.finish(arguments, {**result, "received": received, "nodes": arguments.nodes, "minutes": arguments.minutes})


def watched(members: list[network.Member], seconds: float, round_seconds: float) -> tuple[list[dict[str, float]], int]:
    """MB of a node, mean over nodes, through the time; and how many groups were received in all."""
    samples: list[dict[str, float]] = []
    received, number, began = 0, 0, time.monotonic()
    while time.monotonic() - began < seconds:
        received += sum(network.run_round(members, number, round_seconds))
        number += 1
        if time.monotonic() - began > SAMPLE_SECONDS * len(samples):
            samples.append({"seconds": time.monotonic() - began, **memory_mb(len(members))})
            print(f"{samples[-1]['seconds']:6.0f} s  " + "  ".join(f"{p} {samples[-1][p]:.1f} MB" for p in PARTS))
            sys.stdout.flush()
    return samples, received


def memory_mb(nodes: int) -> dict[str, float]:
    sizes = dict.fromkeys(PARTS, 0.0)
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):  # ended meanwhile
            part = "p2pd" if process.name() == "p2pd" else "network process"
            sizes[part] += process.memory_info().rss / 1e6 / nodes
    return sizes


if __name__ == "__main__":
    main()
