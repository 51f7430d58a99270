"""Do nodes that ask different tasks teach each other? The study behind docs/results/sharing.md.

    python -m lab.studies.specialists --cost        # what it would cost
    python -m lab.studies.specialists               # hours on 2 cores; goes on where it stopped
    python -m lab.studies.specialists --quick       # its shape, in a few minutes

Nine tasks. Generalists ask all of them, specialists of 3 kinds three each, those of 9 kinds one each. Every node is
asked held-out questions of all nine. A learning rate is chosen for every case and arm on a seed of its own.
"""

import argparse
import contextlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from lab.benchmarks import command
from lab.studies import runner
from lab.studies.figures import draw_cases
from lab.studies.rates import Sweep, sweep
from lab.studies.runner import Run
from lab.studies.statistics import COMPARED, Comparison, compare, compared_line, holm, interval
from swarm_node.environments.reasoning_gym.catalogue import STARTER_TASKS

ARMS = ("8/0", "4/4", "2/6")
TITLES: Mapping[str, str] = {
    "generalists": "Generalists: each of 6 nodes asks all 9 tasks",
    "3 kinds": "Specialists: each of 6 nodes asks 3 of 9 tasks",
    "9 kinds": "Specialists: each of 9 nodes asks 1 of 9 tasks",
}
CASES: Mapping[str, tuple[int, int]] = {
    "generalists": (6, 9),
    "3 kinds": (6, 3),
    "9 kinds": (9, 1),
}  # nodes, tasks each
RATES = (1.5e-4, 3e-4, 6e-4)  # a sweep widens itself where the best is at an end
MIDDLE = RATES[1]
SWEEP_SEED = 1000  # far from those that are reported
FIGURES = ("final", "final_local", "final_other", "area", "cumulative_reward")
EQUAL = ("generated_tokens", "cpu_seconds", "trained_tokens")  # spent by all nodes
LABELS: Mapping[str, str] = {
    "final": "accuracy at the end, all nine tasks",
    "final_local": "tasks that a node asks",
    "final_other": "tasks that only others ask",
    "area": "mean accuracy of all evaluations",
    "cumulative_reward": "cumulative reward, of tasks that a node asks",
    "generated_tokens": "all nine tasks, at equal generated tokens",
    "cpu_seconds": "all nine tasks, at equal CPU time",
    "trained_tokens": "all nine tasks, at equal trained tokens",
}


def run(case: str, arm: str, seed: int, rate: float, *, quick: bool = False, rounds: int = 60) -> Run:
    nodes, each = CASES[case]
    groups = [STARTER_TASKS[start : start + each] for start in range(0, len(STARTER_TASKS), each)]
    size: dict[str, Any] = {"rounds": rounds, "evaluate_every": 10, "nodes": nodes}
    if quick:
        size |= {"rounds": 4, "evaluate_every": 2, "evaluate_questions": 1, "nodes": 3}
    tasks = tuple(",".join(group) for group in groups) if len(groups) > 1 else ()
    return runner.make(f"{case}, {arm}", arm, seed, rate, model={"name": "rare"}, node_tasks=tasks, **size)


def main() -> None:
    parser = command.parser("lab.studies.specialists", __doc__)
    runner.add_options(parser)
    parser.add_argument("--cases", nargs="*", choices=CASES, default=list(CASES))
    parser.add_argument("--arms", nargs="*", default=list(ARMS))
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--rate", type=float, help="for all, without a sweep")
    options = parser.parse_args()
    if options.quick:
        options.seeds = min(options.seeds, 3)
    out = command.out(options)
    one = partial(run, quick=options.quick, rounds=options.rounds)
    rates, sweeps = rates_of(options, one)
    wanted = [
        one(case, arm, seed, rates.get((case, arm), MIDDLE))
        for seed in range(options.seeds)  # seed by seed, so that what is done so far can be compared
        for case in options.cases
        for arm in options.arms
        if (case, arm) in rates or options.cost
    ]
    if not runner.do(wanted, options):
        return
    swept = [one(case, arm, SWEEP_SEED, rate) for (case, arm), found in sweeps.items() for rate in found.values]
    rows = runner.listed([*swept, *wanted], options.runs, out / "specialists.csv")
    found = results(rows, options.cases, options.arms, range(options.seeds))
    for axis in EQUAL:
        for case, equal in at_equal(wanted, options, axis).items():
            found.setdefault(case, {})[axis] = equal
    show(found, rows, options)
    compared = {
        case: {figure: [asdict(each) for each in every] for figure, every in of.items()} for case, of in found.items()
    }
    content = {
        "rounds": options.rounds,
        "sweeps": [{"case": case, "arm": arm, **asdict(each)} for (case, arm), each in sweeps.items()],
        "comparisons": compared,
        "curves": curves(wanted, options.runs),
    }
    (out / "specialists.json").write_text(json.dumps(content) + "\n")
    draw_cases(content["curves"], out / "specialists.png", TITLES)
    command.finish(options, content)


def rates_of(
    options: argparse.Namespace, one: Callable[..., Run]
) -> tuple[dict[tuple[str, str], float], dict[tuple[str, str], Sweep]]:
    """The rate of every case and arm, and how it was found. Without those whose sweep is not complete."""
    pairs = [(case, arm) for case in options.cases for arm in options.arms]
    if options.rate or options.quick:
        return dict.fromkeys(pairs, options.rate or MIDDLE), {}
    runner.do([one(*pair, SWEEP_SEED, rate) for pair in pairs for rate in RATES], options)
    sweeps = {}
    for pair in pairs:
        with contextlib.suppress(runner.NotDone):
            sweeps[pair] = sweep(RATES, partial(measured, pair, options, one))
    return {pair: found.best for pair, found in sweeps.items()}, sweeps


def measured(pair: tuple[str, str], options: argparse.Namespace, one: Callable[..., Run], rate: float) -> float:
    """The area at a rate. NotDone where it has not been run, and may not be now."""
    asked = one(*pair, SWEEP_SEED, rate)
    if asked.report(options.runs) is None and not (options.cost or options.report):
        runner.do([asked], options)
    return float(runner.row(asked, runner.needed(asked, options.runs))["area"])


def results(
    rows: Sequence[Mapping[str, Any]], cases: Sequence[str], arms: Sequence[str], seeds: Sequence[int]
) -> dict[str, dict[str, list[Comparison]]]:
    """By case and figure every arm against the first, seed by seed. One family: all of a figure."""
    found: dict[str, dict[str, list[Comparison]]] = {}
    for figure in FIGURES:
        compared: list[tuple[str, Comparison]] = []
        for case in cases:
            base = runner.by_seed(rows, f"{case}, {arms[0]}", figure, seeds)
            for arm in arms[1:]:
                values, against = runner.paired(runner.by_seed(rows, f"{case}, {arm}", figure, seeds), base)
                if values:
                    compared.append((case, compare(arm, values, against)))
        for case, each in corrected(compared):
            found.setdefault(case, {}).setdefault(figure, []).append(each)
    return found


def corrected(compared: Sequence[tuple[str, Comparison]]) -> list[tuple[str, Comparison]]:
    """The same comparisons by case, as one family."""
    ps = holm([each.p for _, each in compared])
    return [(case, replace(each, p_holm=p)) for (case, each), p in zip(compared, ps, strict=True)]


def at_equal(runs: Sequence[Run], options: argparse.Namespace, axis: str) -> dict[str, list[Comparison]]:
    """By case every arm against the first, seed by seed: accuracy on all tasks where both have spent what the cheaper
    one spent in all. One family. Between two evaluations a line is drawn."""
    reports = {(each.name, each.seed): report for each in runs if (report := each.report(options.runs)) is not None}
    compared: list[tuple[str, Comparison]] = []
    for case in options.cases:
        for arm in options.arms[1:]:
            pairs = []
            for seed in range(options.seeds):
                both = [reports.get((f"{case}, {each}", seed)) for each in (arm, options.arms[0])]
                if both[0] and both[1]:
                    spent = [spending(report, axis) for report in both if report]
                    least = min(values[-1] for values in spent)
                    pairs.append([accuracy(report, axis, least) for report in both if report])
            if pairs:
                values, against = map(list, zip(*pairs, strict=True))
                compared.append((case, compare(arm, values, against)))
    found: dict[str, list[Comparison]] = {}
    for case, each in corrected(compared):
        found.setdefault(case, []).append(each)
    return found


def spending(report: Mapping[str, Any], axis: str) -> list[float]:
    """Of all nodes, until each evaluation."""
    (arm,), (cost,) = report["arms"].values(), report["cost"].values()
    if axis == "cpu_seconds":
        return [cost["cpu_seconds"][0][number - 1] for number in arm["held_out"]["rounds"]]
    return list(arm["held_out"][axis][0])


def accuracy(report: Mapping[str, Any], axis: str, spent: float) -> float:
    """Held-out accuracy on all tasks when so much had been spent."""
    (arm,) = report["arms"].values()
    return float(np.interp(spent, spending(report, axis), arm["held_out"]["all_tasks"][0]))


def show(
    found: Mapping[str, Mapping[str, Sequence[Comparison]]],
    rows: Sequence[Mapping[str, Any]],
    options: argparse.Namespace,
) -> None:
    for case, of in found.items():
        command.show([TITLES[case], *COMPARED], table(of))
    means = []
    for case in options.cases:
        for arm in options.arms:
            own = [row for row in rows if row["name"] == f"{case}, {arm}" and row["seed"] < SWEEP_SEED]
            if own:
                means.append([f"{case}, {arm}", *(f"{fmean(row[key] for row in own):,.0f}" for key in runner.COST)])
    command.show(["mean of a run", *runner.COST], means)


def table(compared: Mapping[str, Sequence[Comparison]]) -> list[list[str]]:
    """A line for each figure and arm."""
    return [[LABELS[figure], *compared_line(each)] for figure, every in compared.items() for each in every]


def curves(runs: Sequence[Run], folder: Path) -> dict[str, dict[str, Any]]:
    """By case and arm: mean accuracy with its interval at every evaluation, and what it had cost by then."""
    found: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for each in runs:
        report = each.report(folder)
        if report is not None:
            case, arm = each.name.rsplit(", ", 1)
            (summary,), (spent,) = report["arms"].values(), report["cost"].values()
            found.setdefault(case, {}).setdefault(arm, []).append(
                {**summary["held_out"], "cpu": spent["cpu_seconds"][0]}
            )
    return {case: {arm: curve(seeds) for arm, seeds in of.items()} for case, of in found.items()}


def curve(seeds: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Means over seeds, and the 95 % interval of accuracy."""
    rounds = seeds[0]["rounds"]

    def means(of: str) -> list[float]:
        return [fmean(values) for values in zip(*(seed[of][0] for seed in seeds), strict=True)]

    def bounds(of: str) -> list[Any]:
        return [interval(values) for values in zip(*(seed[of][0] for seed in seeds), strict=True)]

    others = seeds[0]["other_tasks"][0][0] is not None
    return {
        "seeds": len(seeds),
        "rounds": rounds,
        "trained_tokens": means("trained_tokens"),
        "generated_tokens": means("generated_tokens"),
        "cpu_seconds": [fmean(seed["cpu"][number - 1] for seed in seeds) for number in rounds],
        "all": means("all_tasks"),
        "all_interval": bounds("all_tasks"),
        "other": means("other_tasks") if others else None,
    }


if __name__ == "__main__":
    main()
