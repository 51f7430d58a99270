"""Does a node on two devices end with the same reward as on one? Over several seeds, in float32.

    python -m lab.studies.devices
    python -m lab.studies.devices --quick

Each run is a node as a user starts it, without a network, on a starter: one process, and two
processes on a CPU. Seeds are compared in pairs: their questions and their streams of random numbers
are the same, so that they differ in the order of sums alone. That moves a token sooner or later,
and the two runs of a seed part. What has to be the same is the reward that they end with, on the
mean.
"""

import argparse
import subprocess
import sys
from pathlib import Path
from statistics import fmean
from typing import Any

from lab.benchmarks import command
from lab.studies.guests import ROOT, rewards
from lab.studies.statistics import compare

ALONE, SHARED = "1", "cpu,cpu"
LAST = 20  # rounds whose mean reward is the end of a run
QUESTIONS = 8  # of a round


def take_identity(home: Path, of: Path) -> None:
    """Gives a home the key of another one, if that has one: questions and random numbers are those
    of a peer id.
    """
    home.mkdir(parents=True, exist_ok=True)
    key = home / "identity.key"
    if (of / key.name).exists() and not key.exists():
        key.write_bytes((of / key.name).read_bytes())
        key.chmod(0o600)


def run(home: Path, of: Path, seed: int, devices: str, rounds: int, model: str) -> list[float]:
    """The mean reward of each round of a node, which is run to its end unless it has been."""
    if len(rewards(home)) < rounds:
        take_identity(home, of)
        line = [sys.executable, "-P", "-m", "swarm_node.commands.cli", "run", "--home", home]
        line += ["--seed", seed, "--model.name", model, "--model.devices", devices]
        line += ["--network.no-enabled", "--threads", 1, "--max-rounds", rounds]
        line += ["--round.questions", QUESTIONS, "--training.learning-rate", "1e-3"]
        subprocess.run(list(map(str, line)), cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    return rewards(home)[:rounds]


def ends(
    options: argparse.Namespace, seeds: int, rounds: int
) -> tuple[list[float], list[float], list[str]]:
    """The end of each seed's run on one device and on two; seeds whose runs began differently."""
    last = max(1, min(LAST, rounds // 3))
    found: dict[str, list[float]] = {ALONE: [], SHARED: []}
    wrong: list[str] = []
    for seed in range(seeds):
        first: dict[str, float] = {}
        for devices, name in ((ALONE, "alone"), (SHARED, "shared")):
            done = run(
                options.runs / name / str(seed),
                options.runs / "alone" / str(seed),
                seed,
                devices,
                rounds,
                options.model,
            )
            found[devices].append(fmean(done[-last:]))
            first[devices] = done[0]
        # Before the first step both have the same weights
        if first[ALONE] != first[SHARED]:
            wrong.append(f"seed {seed}: first rewards {first[ALONE]} and {first[SHARED]}")
        print(f"seed {seed}: {found[ALONE][-1]:.3f} on one, {found[SHARED][-1]:.3f} on two")
    return found[ALONE], found[SHARED], wrong


def main() -> None:
    made = command.parser("lab.studies.devices", __doc__)
    command.add_quick(made)
    command.add_runs(made)
    made.add_argument("--seeds", type=int, default=5, metavar="N", help="(5)")
    made.add_argument("--rounds", type=int, default=120, metavar="N", help="of each run (120)")
    made.add_argument("--model", default="rare", help="a starter (rare)")
    options = made.parse_args()
    options.runs = options.runs.resolve()
    seeds, rounds = (1, 6) if options.quick else (options.seeds, options.rounds)
    alone, shared, wrong = ends(options, seeds, rounds)
    found = compare("two devices", shared, alone)
    command.show(
        ["", "one device", "two devices", "difference", "95 %", "p"],
        [
            [
                f"reward of the last rounds, {seeds} seeds",
                f"{found.base:.3f}",
                f"{found.mean:.3f}",
                f"{found.difference:+.3f}",
                _ends(found.difference_interval),
                f"{found.p:.3f}",
            ]
        ],
    )
    result: dict[str, Any] = {
        "seeds": seeds,
        "rounds": rounds,
        "model": options.model,
        "one": alone,
        "two": shared,
        "difference": found.difference,
        "interval": found.difference_interval,
        "p": found.p,
        "wrong": wrong,
    }
    command.finish(options, result)


def _ends(interval: tuple[float, float] | None) -> str:
    return "-" if interval is None else f"{interval[0]:+.3f} to {interval[1]:+.3f}"


if __name__ == "__main__":
    main()
