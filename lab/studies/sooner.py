"""How much sooner does a node that shares reach a level than one that trains alone?

    python -m lab.studies.sooner --cost               # what it would cost
    python -m lab.studies.sooner --at-most 8          # continues where it stopped
    python -m lab.studies.sooner --report             # of what is done

Eight nodes train a real model that is hardly ever right at first, all on the same tasks: the other
end of `lab.studies.equal_price`, where a node finds informative groups by itself. A lone arm has
two nodes, since they do not meet. The plain one trains for twice the rounds, so that equal CPU
time can be read off the same curve.

The measure is the price at which held-out accuracy first reaches a level, by rounds, generated
tokens, trained tokens, CPU time and GPU time of one node. Levels are shares of what the plain lone
learners reach at the end of their runs on the seeds of the bracket, so they are fixed before any
run that is compared. Between two evaluations the course is taken to be linear. A run that is above
the level at its first evaluation counts as having reached it there.

A run may end before it reaches a level: its time is censored. Arms are compared by the ratio of
their restricted mean times (Royston and Parmar 2013): the means of min(time, horizon), where the
horizon is the largest price at which it is known of every run of both arms whether it had reached
the level. A run that reached it is known from then on. Both arms are restricted to the same
horizon, so a lone learner that would have needed longer makes the ratio smaller than it is, and
never larger. How many runs reached the level stands beside it.

Only the lone arms are tuned: their rates are bracketed on two seeds each, by the area under the
course. The arm that shares was chosen beforehand, by a first look with other seeds, and takes the
rate that is best for the plain lone learner, so that tuning can only favour those that train alone.
Three arms are run on the seeds of the comparison. Others are told, on the seeds of the bracket:
other ways to share, and `dealt`, the same way with rewards that are dealt at random.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from lab.benchmarks import command
from lab.benchmarks.levels import known_until, reached, restricted, time_to
from lab.studies import objectives, runner
from lab.studies.equal_price import AXES, spent
from lab.studies.rates import Sweep, sweep
from lab.studies.runner import Run
from lab.studies.statistics import Comparison, compare, interval
from swarm_node.settings import DefenceConfig

BRACKET, SEEDS = range(6000, 6002), range(6100, 6108)  # fixed before the first run
RATES = (2.5e-4, 5e-4, 1e-3)  # a sweep adds rates beyond these
ROUNDS = 12
LEVELS = (0.5, 0.75, 1.0)  # of what the plain lone learners reach after twice ROUNDS rounds
ALONE, SAMPLES_ON, DEALT = "alone", "alone, dynamic sampling", "dealt"

Report = Mapping[str, Any]


@dataclass(frozen=True)
class Arm:
    """How the nodes of an arm train, and the options in which it differs from the others."""

    groups: str  # local/external groups of a round, as `simulate` takes them
    rounds: int = ROUNDS
    options: Mapping[str, Any] = field(default_factory=dict)


LONE: Mapping[str, Arm] = {
    ALONE: Arm("4/0", 2 * ROUNDS),
    SAMPLES_ON: Arm("4/0:dynamic_sampling"),
}
SHARED = "4/8"
SHARING: Mapping[str, Arm] = {
    SHARED: Arm("4/8"),
    "4/4": Arm("4/4"),
    "4/4, imitation": Arm("4/4:imitation"),
    # The proportions and the defence of the default of `run`, with four questions a round
    "4/2, default": Arm("4/2", options={"defence": dict(DefenceConfig())}),
}
ARMS = {**LONE, **SHARING}
# The real model, on tasks that it answers a few times in a hundred; docs/results/sooner.md says how
# they were chosen
SWARM: Mapping[str, Any] = {
    "nodes": 8,
    "lone_nodes": 2,
    "node_tasks": ("double/few,first_letters/few,day_before/few,capitals/few",),
    "model": {"name": "smollm2-135m", "lora_rank": 16, "template_arguments": "none"},
    "generation": {"max_completion_length": 8, "stop": ("\n",)},
    "round": {"questions": 4},
    "evaluate_every": 2,
    "evaluate_questions": 8,
    "evaluate_samples": 1,
}
TINY: Mapping[str, Any] = {
    "nodes": 2,
    "lone_nodes": 1,
    "rounds": 4,
    "node_tasks": (),
    "model": {"name": "rare"},
    "evaluate_questions": 1,
}


def run(options: argparse.Namespace, name: str, seed: int, rate: float) -> Run:
    """The run of an arm. `name`: of ARMS, or `dealt ARM`: that arm, with rewards dealt at
    random.
    """
    arm = ARMS[name.removeprefix(f"{DEALT} ")]
    settings = {**SWARM, "rounds": arm.rounds, **arm.options}
    if name.startswith(DEALT):
        settings["training"] = {"scale_rewards": objectives.named("dealt_at_random")}
    if options.model:
        settings["model"] = {**SWARM["model"], "name": options.model}
    if options.quick:
        settings |= TINY
    return runner.make(name, arm.groups, seed, rate, **settings)


def sooner(
    name: str, lone: Sequence[Report], sharing: Sequence[Report], axis: str, level: float
) -> tuple[Comparison, int, int]:
    """How many times as long the lone runs took as the runs that share, seed by seed, and how many
    runs of each reached the level. Reports are in the order of the same seeds.
    """
    of_lone, of_sharing = (
        [time_to(level, prices(report, axis), course(report)) for report in reports]
        for reports in (lone, sharing)
    )
    horizon = known_until(
        [*of_lone, *of_sharing], [prices(report, axis)[-1] for report in (*lone, *sharing)]
    )
    compared = compare(name, restricted(of_lone, horizon), restricted(of_sharing, horizon))
    return compared, reached(of_lone, horizon), reached(of_sharing, horizon)


def prices(report: Report, axis: str) -> list[float]:
    """What a node has spent until each evaluation, in units of the axis."""
    return list(map(float, spent(report, axis)))


def course(report: Report) -> list[float]:
    """Held-out accuracy at each evaluation, the mean over nodes and tasks."""
    (arm,) = report["arms"].values()
    return list(arm["held_out"]["all_tasks"][0])


def levels(reports: Sequence[Report]) -> list[float]:
    """The levels, from reports of the lone arm on the seeds of the bracket."""
    end = fmean(course(report)[-1] for report in reports)
    return [share * end for share in LEVELS]


def area(report: Report) -> float:
    """The mean accuracy over the first ROUNDS rounds, so that longer runs compare with others."""
    (arm,) = report["arms"].values()
    found = zip(arm["held_out"]["rounds"], course(report), strict=True)
    return fmean(accuracy for rounds, accuracy in found if rounds <= ROUNDS)


def swept(options: argparse.Namespace, name: str) -> Sweep | None:
    """The sweep of an arm's rate; None while runs of it are missing."""

    def measured(rate: float) -> float:
        asked = [run(options, name, seed, rate) for seed in BRACKET]
        runner.do(asked, options)
        return fmean(area(runner.needed(each, options.runs)) for each in asked)

    with suppress(runner.NotDone):
        return sweep(RATES, measured)
    return None


def tables(found: Mapping[str, Sequence[Report]], wanted: Sequence[float]) -> list[dict[str, Any]]:
    """A row for each lone arm, axis and level."""
    rows = []
    for lone in LONE:
        for axis in AXES:
            for level in wanted:
                compared, of_lone, of_sharing = sooner(
                    f"{SHARED} : {lone}", found[lone], found[SHARED], axis, level
                )
                rows.append(
                    {
                        **asdict(compared),
                        "axis": axis,
                        "level": level,
                        "lone_reached": of_lone,
                        "sharing_reached": of_sharing,
                    }
                )
    return rows


def show(rows: Sequence[Mapping[str, Any]]) -> None:
    heads = ("sooner", "at equal", "level", "lone", "sharing", "ratio", "95 %", "reached")
    lines = []
    for row in rows:
        ends = row["ratio_interval"]
        lines.append(
            (
                row["name"],
                row["axis"].replace("_", " "),
                f"{100 * row['level']:.0f} %",
                f"{row['mean']:.4g}",
                f"{row['base']:.4g}",
                f"{row['ratio']:.2f}x",
                "-" if ends is None else f"{ends[0]:.2f}-{ends[1]:.2f}",
                f"{row['lone_reached']}, {row['sharing_reached']} of {row['seeds']}",
            )
        )
    command.show(heads, lines)


def draw(found: Mapping[str, Sequence[Report]], wanted: Sequence[float], path: Path) -> None:
    """Draws accuracy by rounds, generated tokens and CPU time: a line for each arm with its
    interval over seeds, and the levels.
    """
    figure = Figure(figsize=(13.0, 4.2), dpi=110)
    panels = {"rounds": "rounds", "generated_tokens": "generated tokens", "cpu_seconds": "CPU s"}
    all_axes = figure.subplots(1, len(panels), sharey=True)
    for axes, (axis, words) in zip(all_axes, panels.items(), strict=True):
        for level in wanted:
            axes.axhline(100 * level, color="0.8", linewidth=1)
        for number, (name, reports) in enumerate(found.items()):
            prices = np.mean([spent(report, axis) for report in reports], axis=0)
            courses = [[100 * value for value in course(report)] for report in reports]
            by_time = list(zip(*courses, strict=True))
            style = "--" if name in LONE else "-"
            label = f"{name} ({len(reports)})"
            axes.plot(prices, list(map(fmean, by_time)), f"C{number}{style}", label=label)
            ends = [interval(values) or (min(values), max(values)) for values in by_time]
            axes.fill_between(prices, *zip(*ends, strict=True), alpha=0.1, color=f"C{number}")
        axes.set(xlabel=f"{words}, of a node", ylim=(0, None), xlim=(0, None))
        axes.spines[["top", "right"]].set_visible(False)
    all_axes[0].set_ylabel("right answers to new questions, of 100")
    all_axes[-1].legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize=8)
    figure.tight_layout()
    figure.savefig(path)


def rates_of(options: argparse.Namespace) -> dict[str, Sweep]:
    """The sweep of every arm, as far as its runs are done."""
    sweeps = {name: swept(options, name) for name in LONE}
    return {name: sweep for name, sweep in sweeps.items() if sweep is not None}


def done_on_all(
    options: argparse.Namespace, runs: Mapping[str, Sequence[Run]]
) -> dict[str, list[Report]]:
    """The reports of each arm, in the order of the seeds on which all arms are done."""
    reports = {name: [each.report(options.runs) for each in of] for name, of in runs.items()}
    whole = [row for row in zip(*reports.values(), strict=True) if None not in row]
    columns = zip(*whole, strict=True) if whole else ([] for _ in reports)
    return {
        name: [report for report in column if report is not None]
        for name, column in zip(reports, columns, strict=True)
    }


def listed_bracket(options: argparse.Namespace, file: Path) -> dict[str, Sweep] | None:
    """Does the runs of the bracket and prints the best rates. Returns the sweep of each arm; None
    while runs are missing, or where they shall not be done.
    """
    first = [run(options, name, seed, rate) for name in LONE for rate in RATES for seed in BRACKET]
    if not runner.do(first, options):
        return None
    sweeps = rates_of(options)
    heads = ("arm", "best rate", "mean accuracy", "at an edge")
    best = [
        (name, f"{sweep.best:g}", f"{sweep.values[sweep.best]:.4f}", sweep.edge)
        for name, sweep in sweeps.items()
    ]
    command.show(heads, best)
    swept_runs = [
        run(options, name, seed, rate)
        for name, sweep in sweeps.items()
        for rate in sweep.values
        for seed in BRACKET
    ]
    runner.listed([*first, *swept_runs], options.runs, file)
    return sweeps if len(sweeps) == len(LONE) else None


def main() -> None:
    parser = command.parser("lab.studies.sooner", __doc__)
    runner.add_options(parser)
    parser.add_argument("--model", help="another name of the model (smollm2-135m)")
    options = parser.parse_args()
    if options.quick:
        options.runs = options.runs / "quick"
    file = command.out(options) / "sooner.csv"
    sweeps = listed_bracket(options, file)
    if sweeps is None:
        return
    rates = {name: sweeps[name if name in LONE else ALONE].best for name in ARMS}
    runs = {
        name: [run(options, name, seed, rates[name]) for seed in SEEDS] for name in (*LONE, SHARED)
    }
    seed_by_seed = [run_of_arm for row in zip(*runs.values(), strict=True) for run_of_arm in row]
    told = [
        run(options, name, seed, rates[SHARED])
        for seed in BRACKET
        for name in (*SHARING, f"{DEALT} {SHARED}")
    ]
    runner.do([*seed_by_seed, *told], options)
    runner.listed([*seed_by_seed, *told], options.runs, file)
    reports = done_on_all(options, runs)
    if not reports[SHARED]:
        return
    seeds = [
        seed
        for seed, *row in zip(SEEDS, *runs.values(), strict=True)
        if all(run_of_arm.report(options.runs) for run_of_arm in row)
    ]
    lone = [run(options, ALONE, seed, sweeps[ALONE].best) for seed in BRACKET]
    wanted = levels([runner.needed(lone_run, options.runs) for lone_run in lone])
    rows = tables(reports, wanted)
    show(rows)
    ends = {name: fmean(course(report)[-1] for report in of) for name, of in reports.items()}
    print("at the end:", ", ".join(f"{name} {100 * end:.0f} %" for name, end in ends.items()))
    draw(reports, wanted, file.with_suffix(".png"))
    content = {
        "seeds": seeds,
        "rates": {name: asdict(sweep) for name, sweep in sweeps.items()},
        "levels": wanted,
        "ends": ends,
        "sooner": rows,
    }
    file.with_suffix(".json").write_text(json.dumps(content) + "\n")
    command.finish(options, content)


if __name__ == "__main__":
    main()
