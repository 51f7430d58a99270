"""Do reports of `simulate` say the same as at an earlier commit? For changes that move code.

    python -m lab.studies.unchanged d71ad390
    # where they differ: which commit between the two changed them
    python -m lab.studies.unchanged d71ad390 --later c0262456
    # no more than one of the six simulations now; the next call continues
    python -m lab.studies.unchanged d71ad390 --at-most 1

The code of both commits is unpacked below the folder of runs, and simulates three small swarms of
starters, each with five seeds, with the packages of this environment and one thread. `--engine
memory` draws everything from the seed, so two reports must be equal in all but `cost`, which counts
seconds. What is not committed is not compared. A report is kept by its commit and not made again,
and a simulation that was cut off continues.
"""

import argparse
import json
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

from lab.benchmarks import command
from lab.benchmarks.command import ROOT
from lab.benchmarks.earlier import Earlier, outside_git, unpacked

COMMON = (
    *("--rounds", "4", "--evaluate-every", "4", "--evaluate-questions", "4"),
    *("--evaluate-samples", "1", "--engine", "memory", "--workers", "1", "--threads", "1"),
)
SWARMS: Mapping[str, Sequence[str]] = {
    "defended": (
        *("--nodes", "4", "--arms", "2/2", "--model.name", "rare"),
        *("--attack", "stealth", "--attack.share", "0.25"),
        *("--defence", "length", "ngrams", "rescue"),
    ),
    "episodes": (
        *("--nodes", "4", "--arms", "2/2", "--model.name", "rare"),
        *("--environment.tasks", "second_try.gcd/tiny", "second_try.lcm/tiny"),
        *("--round.sampler", "adaptive", "--defence", "rescue"),
        *("--attack", "lies", "--attack.share", "0.25"),
    ),
    "faulty": (
        *("--nodes", "4", "--node-models", "rare", "rare_small"),
        *("--node-tasks", "gcd/tiny,lcm/tiny", "products/tiny"),
        # By the name that commits before 798d53a6 know; later ones know it, too
        *("--arms", "2/2:sft", "--faults.loss", "0.2", "--faults.delay", "1"),
        *("--faults.die", "1@3", "--faults.join", "3@2"),
    ),
}
RENAMED = {"sft": "imitation", "dapo": "dynamic_sampling"}  # words after the colon of an arm
MISSING = "(missing)"

Difference = tuple[str, Any, Any]  # where in the report, at the earlier commit, at the later one


class Side:
    """The programs of a commit, unpacked when they are first needed, and their reports."""

    def __init__(self, commit: str, runs: Path) -> None:
        self.commit = commit
        self.folder = runs / commit
        self._programs: Earlier | None = None

    def is_done(self, swarm: str, seeds: int) -> bool:
        return self._kept(swarm, seeds).exists()

    def report(self, swarm: str, seeds: int) -> dict[str, Any]:
        """The report of this swarm, simulated now if it is not kept."""
        return command.kept(self._kept(swarm, seeds), lambda: self._simulated(swarm, seeds))

    def _kept(self, swarm: str, seeds: int) -> Path:
        return self.folder / f"{swarm}_{seeds}.json"

    def _simulated(self, swarm: str, seeds: int) -> dict[str, Any]:
        if self._programs is None:
            shutil.rmtree(self.folder / "programs", ignore_errors=True)
            self._programs = unpacked(self.folder / "programs", self.commit)
        out = self.folder / f"{swarm}_{seeds}"
        flags = [*SWARMS[swarm], *COMMON, "--seeds", seeds, "--out", out]
        flags += ["--resume"] if (out / "manifest.json").exists() else []
        self._programs.ended_well("simulate", *flags, cwd=self.folder)
        report: dict[str, Any] = json.loads((out / "report.json").read_text())
        return report


def whole_name(commit: str) -> str:
    """The hash of a commit in full. SystemExit where the repository has none of that name."""
    line = ["git", "-C", str(ROOT), "rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}"]
    found = subprocess.run(line, env=outside_git(), capture_output=True, text=True, check=False)
    if found.returncode:
        raise SystemExit(f"{commit}: the repository has no commit of this name")
    return found.stdout.strip()


def comparable(report: Mapping[str, Any]) -> dict[str, Any]:
    """A report without what it cost, its arms by the names that they have today."""
    kept = {key: value for key, value in report.items() if key != "cost"}
    return {**kept, "arms": {_name(arm): found for arm, found in report["arms"].items()}}


def _name(arm: str) -> str:
    groups, colon, word = arm.partition(":")
    return groups + colon + RENAMED.get(word, word)


def differences(earlier: Any, later: Any, where: str = "report") -> Iterator[Difference]:
    """Every value in which two reports differ, by its place. A number equals itself alone."""
    if isinstance(earlier, dict) and isinstance(later, dict):
        for key in {**earlier, **later}:
            pair = earlier.get(key, MISSING), later.get(key, MISSING)
            yield from differences(*pair, f"{where}.{key}")
    elif isinstance(earlier, list) and isinstance(later, list):
        for position, pair in enumerate(zip_longest(earlier, later, fillvalue=MISSING)):
            yield from differences(*pair, f"{where}[{position}]")
    elif type(earlier) is not type(later) or earlier != later:
        yield where, earlier, later


def compared(
    earlier: Side, later: Side, seeds: int, at_most: int | None
) -> dict[str, list[Difference]]:
    """The differences between the two reports of each swarm. At most so many simulations are run; a
    swarm that then lacks a report is skipped.
    """
    found: dict[str, list[Difference]] = {}
    missing = [
        (side, swarm)
        for swarm in SWARMS
        for side in dict.fromkeys((earlier, later))
        if not side.is_done(swarm, seeds)
    ]
    for side, swarm in missing[:at_most]:
        print(f"simulating {swarm} at {side.commit:.8}", flush=True)
        side.report(swarm, seeds)
    for swarm in SWARMS:
        if earlier.is_done(swarm, seeds) and later.is_done(swarm, seeds):
            before, after = (side.report(swarm, seeds) for side in (earlier, later))
            found[swarm] = list(differences(comparable(before), comparable(after)))
    return found


def main() -> None:
    made = command.parser("lab.studies.unchanged", __doc__)
    made.add_argument("earlier", metavar="COMMIT")
    made.add_argument("--later", default="HEAD", metavar="COMMIT", help="(HEAD)")
    command.add_runs(made)
    made.add_argument("--seeds", type=int, default=5, metavar="N", help="of each swarm (5)")
    made.add_argument("--at-most", type=int, metavar="N", help="simulations in this call")
    options = made.parse_args()
    earlier, later = (
        Side(whole_name(commit), options.runs.resolve())
        for commit in (options.earlier, options.later)
    )
    found = compared(earlier, later, options.seeds, options.at_most)
    finish(options, (earlier, later), found)


def finish(
    options: argparse.Namespace,
    sides: Sequence[Side],
    found: Mapping[str, Sequence[Difference]],
) -> None:
    """Prints a line for each swarm and the first differences. Exits with 1 where there are any."""
    header = ["swarm", "seeds", "values that differ"]
    command.show(
        header,
        [
            [swarm, str(options.seeds), str(len(found[swarm])) if swarm in found else "not done"]
            for swarm in SWARMS
        ],
    )
    wrong = [
        [swarm, *map(str, difference)]
        for swarm, differing in found.items()
        for difference in differing
    ]
    for swarm, where, before, after in wrong[:10]:
        print(f"{swarm}: {where}: {before:.60} -> {after:.60}")
    commits = dict(zip(("earlier", "later"), (side.commit for side in sides), strict=True))
    command.finish(options, {**commits, "done": [*found], "wrong": wrong[:100]})


if __name__ == "__main__":
    main()
