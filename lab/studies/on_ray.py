"""A study on a Ray cluster of three raylets beside the same in one process: is it the same, and how much faster?

    python -m lab.studies.on_ray --json         # two idle cores; needs the extra `ray`
    python -m lab.studies.on_ray --quick        # its shape

Runs: four arms with four seeds each, first in one process on one core, then over the raylets on `--cores` cores, and
then again there with losses: when half of the runs are finished, a raylet is killed; when three quarters are, the
driver is, and it goes on by `--resume`. Reports have to be equal, but for their cost, and what was finished must not
run again. `ratio` is the speed-up over one core, without losses. Starting the cluster is not in it.

Swarm: one swarm of 32 nodes as actors over the raylets, beside the same swarm in memory. Rewards have to be equal.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from lab.benchmarks import command
from lab.benchmarks.waiting import until
from lab.studies.raylets import Raylets, raylets

PATIENCE = 3600.0  # seconds


def main() -> None:
    parser = command.parser("lab.studies.on_ray", __doc__)
    command.add_quick(parser)
    command.add_runs(parser)
    parser.add_argument("--arms", nargs="*", default=["8/0", "6/2", "4/4", "2/6"])
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=30, help="of each run")
    parser.add_argument("--nodes", type=int, default=4, help="of each run")
    parser.add_argument("--swarm", type=int, default=32, help="nodes of the one large swarm")
    parser.add_argument("--swarm-rounds", type=int, default=10)
    parser.add_argument("--cores", type=int, default=2, help="that the raylets have together")
    options = parser.parse_args()
    if options.quick:
        options.arms, options.seeds, options.rounds, options.nodes = options.arms[:2], 2, 2, 2
        options.swarm, options.swarm_rounds = 4, 2
        options.runs = options.runs / "quick"
    runs = command.kept(options.runs / "runs.json", partial(many_runs, options))
    swarm = command.kept(options.runs / "swarm.json", partial(one_swarm, options))
    lines = [
        ["one process, one core", f"{runs['seconds_here']:.0f}", "-"],
        [f"three raylets, {options.cores} cores", f"{runs['seconds_on_ray']:.0f}", told(runs["equal"])],
        ["with a raylet and the driver killed", "-", told(runs["equal_after_losses"])],
        [f"{options.swarm} nodes in one process", f"{swarm['seconds_here']:.0f}", "-"],
        [f"{options.swarm} nodes as actors", f"{swarm['seconds_on_ray']:.0f}", told(swarm["equal"])],
    ]
    command.show(["", "seconds", "report"], lines)
    print(
        f"\nbegun again after the losses: {runs['begun_again']} runs, of those that were finished: {runs['repeated']}"
    )
    command.finish(options, {"ratio": runs["ratio"], "runs": runs, "swarm": swarm})


def told(equal: bool) -> str:
    return "equal" if equal else "DIFFERS"


def many_runs(options: argparse.Namespace) -> dict[str, Any]:
    """Every arm with every seed: here, there, and there with losses."""
    one = [*words(options.nodes, options.rounds), "--seeds", str(options.seeds), "--arms", ",".join(options.arms)]
    here, there, lossy = (options.runs / name for name in ("here", "ray", "losses"))
    with confined(1):
        alone = timed([*one, "--workers", "1"], here)
    with confined(options.cores), raylets() as cluster:
        shared = timed([*one, *on(cluster)], there)
    with confined(options.cores), raylets() as cluster:
        with_losses([*one, *on(cluster)], lossy, len(options.arms) * options.seeds, cluster)
    return {
        "seconds_here": alone,
        "seconds_on_ray": shared,
        "ratio": alone / shared,
        "equal": report(here) == report(there),
        "equal_after_losses": report(here) == report(lossy),
        **repetitions(events(lossy)),
    }


def one_swarm(options: argparse.Namespace) -> dict[str, Any]:
    """Its nodes in one process, and as actors."""
    one = [*words(options.swarm, options.swarm_rounds), "--arms", "4/4"]
    here, there = options.runs / "swarm-here", options.runs / "swarm-ray"
    with confined(1):
        alone = timed(one, here)
    with confined(options.cores), raylets() as cluster:
        spread = timed([*one, *on(cluster), "--ray.spread", "nodes"], there)
    return {"seconds_here": alone, "seconds_on_ray": spread, "equal": report(here) == report(there)}


def words(nodes: int, rounds: int) -> list[str]:
    """Of a simulation."""
    return ["--model.name", "rare", "--nodes", str(nodes), "--rounds", str(rounds)]


def on(cluster: Raylets) -> list[str]:
    return ["--engine", "ray", "--ray.address", cluster.address]


@contextmanager
def confined(cores: int) -> Iterator[None]:
    """This process, and what it starts meanwhile, to so many cores, where the system can do that."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(before)[:cores])
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def timed(options: Sequence[str], out: Path) -> float:
    """Seconds of the simulation, from its start to its report."""
    began = time.monotonic()
    finish(start([*options, "--overwrite"], out))
    return time.monotonic() - began


def with_losses(options: Sequence[str], out: Path, total: int, cluster: Raylets) -> None:
    """A raylet is killed at half of the way, the driver at three quarters, and the rest is resumed."""
    driver = start([*options, "--overwrite"], out)
    try:
        for share, lose in ((0.5, cluster.kill_one), (0.75, driver.kill)):
            until(partial(far, driver, out, share * total), PATIENCE, f"{share:.0%} of the runs")
            lose()
    finally:
        driver.kill()
        driver.communicate()
    finish(start([*options, "--resume"], out))


def far(driver: "subprocess.Popen[str]", out: Path, count: float) -> bool:
    """Whether so many runs are finished. RuntimeError where it ended before."""
    if driver.poll() is not None:
        raise RuntimeError(f"the simulation ended too early: {driver.communicate()[0]}")
    finished = [each for each in events(out) if each["event"] == "CellFinished"]
    return len(finished) >= count


def start(options: Sequence[str], out: Path) -> "subprocess.Popen[str]":
    whole = [sys.executable, "-m", "swarm_node.commands.cli", "simulate", *options, "--out", str(out)]
    return subprocess.Popen(whole, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def finish(simulation: "subprocess.Popen[str]") -> None:
    said, _ = simulation.communicate(timeout=PATIENCE)
    if simulation.returncode:
        raise RuntimeError(f"the simulation ended with {simulation.returncode}: {said}")


def report(out: Path) -> dict[str, Any]:
    """All of it that does not depend on the machine, rewards to the bit."""
    found: dict[str, Any] = json.loads((out / "report.json").read_text())
    return {key: value for key, value in found.items() if key != "cost"}


def events(out: Path) -> list[dict[str, Any]]:
    """Those that are whole, in their order."""
    path = out / "events.jsonl"
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n")]


def repetitions(found: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """How many runs began more than once, and how many of these had been finished already."""
    begun: Counter[tuple[str, int]] = Counter()
    finished: set[tuple[str, int]] = set()
    repeated: set[tuple[str, int]] = set()
    for each in found:
        if each["event"] not in ("CellStarted", "CellFinished"):
            continue
        cell = (each["arm"], each["seed"])
        if each["event"] == "CellFinished":
            finished.add(cell)
        else:
            begun[cell] += 1
            repeated |= {cell} & finished
    return {"begun_again": sum(count > 1 for count in begun.values()), "repeated": len(repeated)}


if __name__ == "__main__":
    main()
