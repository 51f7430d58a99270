"""One experiment by local workers and on a Ray cluster of three raylets of this machine, of which
one is killed in the middle: the same report, and how long each takes.

    python -m lab.studies.on_ray --json    # needs the extra ray; docs/results/ray.md
"""

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from lab.benchmarks import command
from lab.benchmarks.raylets import RayCluster, raylets
from lab.benchmarks.waiting import until

RAYLETS = 3
LONG = 3600.0  # seconds
ARMS = ("4/0", "3/1", "2/2", "1/3")
FLAGS = ("--nodes", "4", "--round.questions", "4", "--model.name", "rare", "--arms", *ARMS)


def started(options: Sequence[str], folder: Path) -> "subprocess.Popen[bytes]":
    """An experiment that runs, with its report in this folder."""
    shutil.rmtree(folder, ignore_errors=True)
    line = [sys.executable, "-m", "swarm_node", "simulate", *FLAGS, *options, "--out", str(folder)]
    return subprocess.Popen(line, stdout=subprocess.DEVNULL)


def ended(simulation: "subprocess.Popen[bytes]") -> None:
    if simulation.wait(LONG):
        raise SystemExit(f"the simulation ended with code {simulation.returncode}")


def learnt(folder: Path) -> dict[str, Any]:
    """A report without what depends on the machine."""
    report = json.loads((folder / "report.json").read_text())
    return {name: told for name, told in report.items() if name != "cost"}


def done(folder: Path) -> int:
    """Runs of an arm and a seed that are finished."""
    return len(list((folder / "cells").glob("*.json")))


def timed(options: Sequence[str], folder: Path) -> float:
    """Seconds that an experiment takes."""
    began = time.monotonic()
    ended(started(options, folder))
    return time.monotonic() - began


def with_a_loss(options: Sequence[str], folder: Path, cluster: RayCluster, cells: int) -> float:
    """Seconds that it takes where a raylet is killed after half of the runs."""
    began = time.monotonic()
    simulation = started(options, folder)
    until(lambda: done(folder) >= cells // 2 or simulation.poll() is not None, LONG, "half of it")
    cluster.kill_one()
    ended(simulation)
    return time.monotonic() - began


def main() -> None:
    parser = command.parser("lab.studies.on_ray", __doc__)
    parser.add_argument("--rounds", default="30")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    how = ["--rounds", options.rounds, "--seeds", str(options.seeds)]
    cells = len(ARMS) * options.seeds
    seconds, equal = dict[str, float](), dict[str, bool]()
    with TemporaryDirectory(prefix="on-ray-") as work:
        here, there = Path(work) / "here", Path(work) / "there"
        seconds["one local worker"] = timed([*how, "--workers", "1"], here)
        seconds["local workers, one per core"] = timed(how, Path(work) / "side by side")
        with raylets(RAYLETS) as cluster:
            where = [*how, "--engine", "ray", "--ray.address", cluster.address]
            for name in ("three raylets", "three raylets, one killed after half"):
                losing = "killed" in name
                seconds[name] = (
                    with_a_loss(where, there, cluster, cells) if losing else timed(where, there)
                )
                equal[name] = learnt(there) == learnt(here) and done(there) == cells
    rows = [[name, f"{took:.0f}", str(equal.get(name, "-"))] for name, took in seconds.items()]
    command.show([f"{cells} cells", "seconds", "same report"], rows)
    ratio = seconds["one local worker"] / seconds["three raylets"]
    wrong = [name for name, same in equal.items() if not same]
    command.finish(options, {"seconds": seconds, "equal": equal, "ratio": ratio, "wrong": wrong})


if __name__ == "__main__":
    main()
