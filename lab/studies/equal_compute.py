"""Is sharing worth it at equal compute? Four starters: alone, shared, and alone with more generated or trained on.

    python -m lab.studies.equal_compute --cost      # what it would cost
    python -m lab.studies.equal_compute             # goes on where it stopped
    python -m lab.studies.equal_compute --quick     # its shape

Alone may generate twice or three times as many groups and train on eight informative ones (`more local`), or train on
a batch twice as large (`larger batch`). Every run has the same rounds. They are compared where one has spent as
much as the one that spent least: trained tokens, generated tokens, CPU seconds.
"""

import argparse
import json
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from itertools import accumulate
from statistics import fmean
from typing import Any

from lab.benchmarks import command
from lab.studies import runner
from lab.studies.runner import Run
from lab.studies.statistics import COMPARED, Comparison, compare, compared_line, holm

STARTERS: Mapping[str, Mapping[str, float]] = {  # the rates of docs/results/sharing.md: alone, shared
    "dense": {"8/0": 6e-4, "4/4": 6e-4},
    "rare": {"8/0": 3e-4, "4/4": 3e-4},
    "very_rare": {"8/0": 6e-4, "4/4": 3e-4},
    "rarest": {"8/0": 1.2e-3, "4/4": 6e-4},
}
WAYS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "alone": ("8/0", {}),
    "shared": ("4/4", {}),
    "more local": ("8/0", {"questions": 18, "sampler": "informative"}),
    "three times as many local": ("8/0", {"questions": 27, "sampler": "informative"}),
    "larger batch": ("16/0", {"questions": 18}),
}
AXES = ("rounds", "trained_tokens", "generated_tokens", "cpu_seconds", "wall_seconds")
LAST = 10  # rounds whose mean is the level


def run(options: argparse.Namespace, starter: str, way: str, seed: int) -> Run:
    arm, changes = WAYS[way]
    rate = STARTERS[starter]["4/4" if way == "shared" else "8/0"]
    size = {"rounds": 4, "nodes": 3} if options.quick else {"rounds": options.rounds}
    return runner.make(f"{starter}, {way}", arm, seed, rate, model={"name": starter}, round=changes, **size)


def main() -> None:
    parser = command.parser("lab.studies.equal_compute", __doc__)
    runner.add_options(parser)
    parser.add_argument("--starters", nargs="*", choices=STARTERS, default=list(STARTERS))
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=8)
    options = parser.parse_args()
    if options.quick:
        options.starters, options.seeds = options.starters[:1], 2
    out, one = command.out(options), partial(run, options)
    runs = [one(starter, way, seed) for seed in range(options.seeds) for starter in options.starters for way in WAYS]
    if not runner.do(runs, options):
        return
    runner.listed(runs, options.runs, out / "equal_compute.csv")
    found = {axis: compared(runs, options, axis) for axis in AXES}
    for axis, every in found.items():
        heading = f"level at equal {axis.replace('_', ' ')}, against alone"
        command.show([heading, *COMPARED[1:]], [compared_line(each) for each in every])
    content = {axis: [asdict(each) for each in every] for axis, every in found.items()}
    (out / "equal_compute.json").write_text(json.dumps(content) + "\n")
    command.finish(options, content)


def compared(runs: Sequence[Run], options: argparse.Namespace, axis: str) -> list[Comparison]:
    """Every way against alone, seed by seed, where both have spent what the cheaper one spent in all; one family."""
    reports = {(each.name, each.seed): report for each in runs if (report := each.report(options.runs)) is not None}
    found = []
    for starter in options.starters:
        for way in list(WAYS)[1:]:
            pairs = []
            for seed in range(options.seeds):
                one, other = reports.get((f"{starter}, {way}", seed)), reports.get((f"{starter}, alone", seed))
                if one and other:
                    pairs.append(at_equal(one, other, axis))
            if pairs:
                found.append(compare(f"{starter}, {way}", [a for a, _ in pairs], [b for _, b in pairs]))
    corrected = holm([each.p for each in found])
    return [Comparison(**{**asdict(each), "p_holm": p}) for each, p in zip(found, corrected, strict=True)]


def at_equal(one: Mapping[str, Any], other: Mapping[str, Any], axis: str) -> tuple[float, float]:
    """The level of both, share of right completions, where each has spent as much as the cheaper one in all."""
    spent = [spending(report, axis) for report in (one, other)]
    least = min(values[-1] for values in spent)
    return level(one, bisect_right(spent[0], least)), level(other, bisect_right(spent[1], least))


def spending(report: Mapping[str, Any], axis: str) -> list[float]:
    """Until the end of every round."""
    (arm,), (cost,) = report["arms"].values(), report["cost"].values()
    if axis == "rounds":
        return [float(number + 1) for number in range(report["rounds"])]
    if axis in ("cpu_seconds", "wall_seconds"):
        return list(cost[axis][0])
    return list(accumulate(arm["metrics"][axis][0]))


def level(report: Mapping[str, Any], rounds: int) -> float:
    """Mean over the last rounds of so many; 0 where there are none."""
    (arm,) = report["arms"].values()
    rewards = arm["rewards"][0][max(0, rounds - LAST) : rounds]
    return fmean(rewards) / report["questions"] if rewards else 0.0


if __name__ == "__main__":
    main()
