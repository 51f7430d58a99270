"""What does sharing give that the strongest lone learner does not have for the same price?

    python -m lab.studies.equal_price rare --at-most 40            # continues where it stopped
    # a real model: a run takes 1 to 6 minutes
    python -m lab.studies.equal_price smollm2-135m --at-most 40
    python -m lab.studies.equal_price rare --report                # of what is done

Nodes are specialists: each asks some of the tasks, and is examined in all, with questions whose
texts no training has. Lone learners: a specialist; one that asks on until enough groups are
informative (dynamic sampling, `dapo` in files); generalists, which ask all tasks; a generalist with
dynamic sampling. Arms that share train on as many groups (1/1), on external ones besides (2/2),
generate less (lean), or imitate right completions (`sft` in files). The rate of every arm is
bracketed on two seeds of their own, by its accuracy on all tasks during the run; that of a lone
specialist once more, by its accuracy on its own tasks at the end. Arms are compared where each
learner has spent as much: rounds, generated tokens, trained tokens, CPU time, or time of a GPU on
which generating a token takes G times as long as training on it.
"""

import contextlib
import json
import re
from argparse import Namespace
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from lab.benchmarks import command
from lab.studies import objectives, runner
from lab.studies.rates import Sweep, sweep
from lab.studies.runner import Run
from lab.studies.statistics import Comparison, compare, compared_line, holm, interval
from swarm_node.common.children import usable_cores
from swarm_node.environments.reasoning_gym.catalogue import STARTER_TASKS

SWEEP_SEEDS = (1000, 1001)
SEEDS = range(4000, 4008)  # fixed before the first run
KINDS = {"all_tasks": "all tasks", "local_tasks": "own tasks", "other_tasks": "others' tasks"}
# Seconds of rollout to seconds of training, of the same tokens: 63/31 % (Qwen2-VL-72B) and 84/14 %
# (Moonlight, long completions), arXiv 2511.14617, table 1. 74.0 to 17.9 s for 325 tokens: verl,
# issue 1208; 541 to 544 s for up to 3,072 tokens: verl, issue 7412.
GPUS = {"GPU, G 1": 1.0, "GPU, G 2": 63 / 31, "GPU, G 4": 74.0 / 17.9, "GPU, G 6": 84 / 14}
AXES = ("rounds", "generated_tokens", "trained_tokens", "cpu_seconds", *GPUS)

# Axes of the figure, in its words
FIGURE = {
    "generated_tokens": "generated tokens",
    "cpu_seconds": "CPU seconds",
    "GPU, G 6": "GPU time, G = 6",
}

Report = Mapping[str, Any]
# Axis -> arm -> "price", and "accuracy" of each seed, at each evaluation
Curves = dict[str, dict[str, dict[str, list[Any]]]]


@dataclass(frozen=True)
class Setting:
    """A swarm, and the arms that are compared in it."""

    nodes: int
    tasks: tuple[str, ...]  # of nodes 0, 1, ... in turn
    lone: Mapping[str, str]  # name -> arm
    sharing: Mapping[str, str]
    rates: tuple[float, ...]
    rounds: int
    # Rounds of a lone generalist: it has no peers, and may spend what scoring their groups costs
    # others
    longer: int
    options: Mapping[str, Any] = field(default_factory=dict)


def thirds(tasks: Sequence[str]) -> tuple[str, ...]:
    return tuple(",".join(tasks[start : start + 3]) for start in range(0, len(tasks), 3))


SETTINGS: Mapping[str, Setting] = {
    "rare": Setting(
        nodes=6,
        tasks=thirds(STARTER_TASKS),
        lone={
            "alone": "8/0",
            "dapo": "8/0:dynamic_sampling",
            "generalist": "8/0:all",
            "generalist dapo": "8/0:all:dynamic_sampling",
            # Added after the others had been run, since 4/4 lean led
            "generalist lean": "4/0:all:lean",
        },
        sharing={"4/4": "4/4", "4/4 lean": "4/4:lean", "4/4 sft": "4/4:imitation", "8/4": "8/4"},
        rates=(1.5e-4, 3e-4, 6e-4),
        rounds=60,
        longer=180,
        options={"model": {"name": "rare"}, "evaluate_every": 10},
    ),
    "smollm2-135m": Setting(
        nodes=4,
        tasks=("second/few", "swap/few", "last/few", "next/few"),
        lone={
            "alone": "2/0",
            "dapo": "2/0:dynamic_sampling",
            "generalist": "2/0:all",
            "generalist dapo": "2/0:all:dynamic_sampling",
            "generalist lean": "1/0:all:lean",
        },
        sharing={"1/1": "1/1", "2/2": "2/2", "1/1 lean": "1/1:lean", "2/2 sft": "2/2:imitation"},
        rates=(2.5e-4, 5e-4, 1e-3),
        rounds=12,
        longer=24,
        options={
            "model": {"name": "smollm2-135m", "lora_rank": 16, "template_arguments": "none"},
            "generation": {"max_completion_length": 8, "stop": ("\n",)},
            "round": {"questions": 2},
            "evaluate_every": 3,
            "evaluate_questions": 16,
            "evaluate_samples": 1,
        },
    ),
}
DEALT = "dealt at random"
# Words of tables and figures for words in the names of arms, which stay in files as they are
SHOWN = {"dapo": "dynamic sampling", "sft": "imitation"}
# Suffix of a lone specialist's name: it runs at the rate that is best for these tasks
OWN = " for own tasks"


def shown(name: str) -> str:
    """The name of an arm, or of a comparison, as people read it."""
    return re.sub(rf"\b({'|'.join(SHOWN)})\b", lambda found: SHOWN[found[0]], name)


def run(setting: Setting, name: str, seed: int, rate: float) -> Run:
    """`name`: that of an arm; or DEALT: the first arm that shares, with rewards dealt at random."""
    name = name.removesuffix(OWN)
    arm = {**setting.lone, **setting.sharing, DEALT: next(iter(setting.sharing.values()))}[name]
    rounds = setting.longer if name.startswith("generalist") else setting.rounds
    options = dict(setting.options)
    if name == DEALT:
        options["training"] = {"scale_rewards": objectives.named("dealt_at_random")}
    size = {"nodes": setting.nodes, "node_tasks": setting.tasks, "rounds": rounds}
    return runner.make(name, arm, seed, rate, **options, **size)


def spent(report: Report, axis: str) -> list[float]:
    """What one learner has spent until each evaluation, in units of the axis."""
    (arm,), (cost,), nodes = report["arms"].values(), report["cost"].values(), learners(report)
    rounds = arm["held_out"]["rounds"]
    if axis == "rounds":
        return list(map(float, rounds))
    if axis == "cpu_seconds":
        return [cost["cpu_seconds"][0][number - 1] / nodes for number in rounds]
    generated, trained = (
        np.divide(arm["held_out"][f"{kind}_tokens"][0], nodes) for kind in ("generated", "trained")
    )
    by_axis = {"generated_tokens": generated, "trained_tokens": trained}
    return list(by_axis[axis] if axis in by_axis else GPUS[axis] * generated + trained)


def learners(report: Report) -> int:
    """The number of learners; a lone generalist is one."""
    (arm,) = report["arms"].values()
    return len(arm["node_rewards"][0])


def accuracy(report: Report, kind: str, axis: str, price: float) -> float:
    """Held-out accuracy when each learner had spent `price`; linear between two evaluations."""
    (arm,) = report["arms"].values()
    return float(np.interp(price, spent(report, axis), arm["held_out"][kind][0]))


def at_equal_price(
    reports: Mapping[tuple[str, int], Report], one: str, other: str, axis: str, kind: str
) -> list[list[float]]:
    """Accuracy of both arms by seed, where both have spent what the cheaper one spent in all."""
    found: list[list[float]] = [[], []]
    for seed in SEEDS:
        both = [reports.get((name, seed)) for name in (one, other)]
        if both[0] and both[1]:
            price = min(spent(report, axis)[-1] for report in both if report)
            for values, report in zip(found, both, strict=True):
                values.append(accuracy(report or {}, kind, axis, price))
    return found


def comparisons(
    setting: Setting, reports: Mapping[tuple[str, int], Report]
) -> dict[str, list[Comparison]]:
    """For each axis, every arm that shares against every lone one, and the first that shares
    against dealt rewards. The comparisons of an axis are one family. Own and others' tasks exist
    for specialists alone.
    """
    found: dict[str, list[Comparison]] = {}
    for axis in AXES:
        compared = []
        for one in setting.sharing:
            for other in setting.lone:
                kinds = ["all_tasks"] if other.startswith("generalist") else [*KINDS]
                for kind in kinds:
                    values, base = at_equal_price(reports, one, other, axis, kind)
                    if values:
                        compared.append(compare(f"{one} : {other}, {KINDS[kind]}", values, base))
            for other in specialists(setting):
                values, base = at_equal_price(reports, one, other, axis, "local_tasks")
                if values:
                    compared.append(compare(f"{one} : {other}", values, base))
        values, base = at_equal_price(
            reports, next(iter(setting.sharing)), DEALT, axis, "all_tasks"
        )
        if values:
            compared.append(compare(f"{next(iter(setting.sharing))} : {DEALT}", values, base))
        corrected = holm([each.p for each in compared])
        found[axis] = [replace(each, p_holm=p) for each, p in zip(compared, corrected, strict=True)]
    return found


def specialists(setting: Setting) -> list[str]:
    """The names of lone specialists at the rate that is best for their own tasks."""
    return [f"{name}{OWN}" for name in setting.lone if not name.startswith("generalist")]


def rates_of(setting: Setting, options: Namespace) -> dict[str, Sweep]:
    """The sweep of every arm, as far as its runs are done."""
    names = [*setting.lone, *setting.sharing]
    runner.do(
        [
            run(setting, name, seed, rate)
            for name in names
            for rate in setting.rates
            for seed in SWEEP_SEEDS
        ],
        options,
    )

    def measured(name: str, rate: float) -> float:
        asked = [run(setting, name, seed, rate) for seed in SWEEP_SEEDS]
        if not (options.cost or options.report):
            runner.do([each for each in asked if each.report(options.runs) is None], options)
        figure = "final_local" if name.endswith(OWN) else "area"
        return fmean(runner.row(each, runner.needed(each, options.runs))[figure] for each in asked)

    def swept(name: str) -> Sweep | None:
        with contextlib.suppress(runner.NotDone):
            return sweep(setting.rates, partial(measured, name))
        return None

    found = dict[str, Sweep | None]()
    for several in (names, specialists(setting)):  # the second sweep by runs of the first
        # Sweeps widen side by side
        with ThreadPoolExecutor(options.cores or usable_cores()) as pool:
            found |= zip(several, pool.map(swept, several), strict=True)
    return {name: each for name, each in found.items() if each is not None}


def strongest(found: Mapping[str, Sequence[Comparison]]) -> dict[str, Comparison]:
    """For each axis, the largest gain when each arm that shares is set against the lone one it
    gains least over.
    """
    best: dict[str, Comparison] = {}
    for axis, every in found.items():
        worst: dict[str, Comparison] = {}
        for each in every:
            one, _, other = each.name.partition(" : ")
            if other.endswith(", all tasks") and (each.ratio or 0) < (
                worst[one].ratio or 0 if one in worst else np.inf
            ):
                worst[one] = each
        if worst:
            best[axis] = max(worst.values(), key=lambda each: each.ratio or 0)
    return best


def curves(setting: Setting, reports: Mapping[tuple[str, int], Report]) -> Curves:
    """What the figure shows: for each of its axes and each arm, what a learner had spent at each
    evaluation (mean over seeds), and its accuracy on all tasks by seed.
    """
    found: Curves = {axis: {} for axis in FIGURE}
    for name in (*setting.lone, *setting.sharing):
        runs = [
            report for (other, seed), report in reports.items() if other == name and seed in SEEDS
        ]
        if not runs:
            continue
        arms = [next(iter(report["arms"].values())) for report in runs]
        by_seed = [arm["held_out"]["all_tasks"][0] for arm in arms]
        for axis in FIGURE:
            prices = np.mean([spent(report, axis) for report in runs], axis=0)
            found[axis][name] = {
                "price": list(map(float, prices)),
                "accuracy": list(map(list, zip(*by_seed, strict=True))),
            }
    return found


def draw(setting: Setting, found: Curves, path: Path) -> None:
    """Draws accuracy on all tasks by price: a panel for each axis, a line for each arm with its
    interval. Ends of lines beyond three times what the dearest arm that shares spends are skipped.
    """
    figure = Figure(figsize=(14.0, 4.2), dpi=110)
    colours = {name: f"C{number}" for number, name in enumerate([*setting.lone, *setting.sharing])}
    panels = figure.subplots(1, len(FIGURE), sharey=True)
    for axes, (axis, words) in zip(panels, FIGURE.items(), strict=True):
        most = 0.0
        for name, curve in found[axis].items():
            prices, values = curve["price"], curve["accuracy"]
            lone = name in setting.lone
            most = most if lone else max(most, 3 * prices[-1])
            axes.plot(
                prices,
                [fmean(each) for each in values],
                colours[name],
                ls="--" if lone else "-",
                label=f"{shown(name)} ({len(values[0])})",
            )
            ends = [interval(each) or (each[0], each[0]) for each in values]
            axes.fill_between(prices, *zip(*ends, strict=True), alpha=0.1, color=colours[name])
        axes.set(xlabel=f"{words}, of a learner", ylim=(0, None), xlim=(0, most or None))
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
        axes.spines[["top", "right"]].set_visible(False)
    figure.axes[0].set_ylabel("held-out accuracy, all tasks")
    lines = {
        "fontsize": 8,
        "frameon": False,
        "title": "dashed: lone learners (seeds)",
        "title_fontsize": 8,
    }
    figure.axes[-1].legend(loc="center left", bbox_to_anchor=(1.0, 0.5), **lines)
    figure.tight_layout()
    figure.savefig(path)


def main() -> None:
    parser = command.parser("lab.studies.equal_price", __doc__)
    parser.add_argument("setting", choices=SETTINGS)
    runner.add_options(parser)
    options = parser.parse_args()
    setting, options.runs = SETTINGS[options.setting], options.runs / options.setting
    if options.quick:
        tiny = {
            **setting.options,
            "evaluate_every": 2,
            "evaluate_questions": 1,
            "evaluate_samples": 1,
        }
        setting, options.runs = (
            replace(setting, rounds=4, longer=6, options=tiny),
            options.runs / "quick",
        )
    sweeps = rates_of(setting, options)
    first = next(iter(setting.sharing))
    rates = {name: found.best for name, found in sweeps.items()}
    if first in rates:
        rates[DEALT] = rates[first]
    named = {
        (name, seed): run(setting, name, seed, rate)
        for seed in SEEDS
        for name, rate in rates.items()
    }
    wanted = list({each.folder(options.runs): each for each in named.values()}.values())
    if not runner.do(wanted, options):
        return
    out, stem = command.out(options), f"equal_price_{options.setting}"
    swept = [
        run(setting, name, seed, rate)
        for name, found in sweeps.items()
        if not name.endswith(OWN)
        for rate in {*found.values, *sweeps.get(f"{name}{OWN}", found).values}
        for seed in SWEEP_SEEDS
    ]
    runner.listed([*swept, *wanted], options.runs, out / f"{stem}.csv")
    reports = {
        key: found
        for key, each in named.items()
        if (found := each.report(options.runs)) is not None
    }
    compared = comparisons(setting, reports)
    for axis, every in compared.items():
        heads = (
            f"at equal {axis.replace('_', ' ')}",
            "seeds",
            "lone",
            "sharing",
            "ratio",
            "95 %",
            "p (Holm)",
        )
        command.show(heads, [compared_line(replace(each, name=shown(each.name))) for each in every])
    best = strongest(compared)
    for axis, each in best.items():
        print(
            f"against the strongest lone learner at equal {axis}: {shown(each.name)}, "
            f"{each.ratio or 0:.2f}x"
        )
    drawn = curves(setting, reports)
    draw(setting, drawn, out / f"{stem}.png")
    content = {
        "seeds": list(SEEDS),
        "rates": {name: asdict(found) for name, found in sweeps.items()},
        "comparisons": {axis: list(map(asdict, every)) for axis, every in compared.items()},
        "curves": drawn,  # so that the figure can be drawn in other words without the runs
    }
    (out / f"{stem}.json").write_text(json.dumps(content) + "\n")
    command.finish(
        options, {**content, "strongest": {axis: asdict(each) for axis, each in best.items()}}
    )


if __name__ == "__main__":
    main()
