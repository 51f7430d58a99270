"""Do real models teach each other what they ask? Four nodes of SmolLM2-135M, each with one kind of task of its own.

    python -m lab.studies.real_specialists --at-most 12      # goes on where it stopped; a run takes 2 to 4 minutes
    python -m lab.studies.real_specialists --report          # of what is done

Every node generates two groups of eight a round. Alone it trains on these, with sharing on two more that others wrote;
a generalist alone asks the four tasks in turn. It is compared after as many rounds, which are as many generated tokens,
and when it has spent as much CPU time as a node that shares. Rewards that are dealt at random show what such training
does by itself.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from lab.benchmarks import command
from lab.studies import objectives, runner, specialists
from lab.studies.real_swarm import TASKS
from lab.studies.runner import Run
from lab.studies.statistics import COMPARED, Comparison, compare, compared_line, interval

DEALT, SHARED, ALONE, GENERALIST = "rewards dealt at random, 2/2", "sharing, 2/2", "alone, 2/0", "generalist, 2/0:all"
NAMES = (ALONE, SHARED, GENERALIST, DEALT)
KINDS = {"all_tasks": "all tasks", "local_tasks": "own tasks", "other_tasks": "others' tasks"}
SEEDS = range(3000, 3008)  # fixed before the first run
ROUNDS, LONGER, EVERY, RATE = 12, 20, 4, 5e-4  # a generalist may run longer

Report = Mapping[str, Any]


def run(name: str, seed: int) -> Run:
    rule = f"{objectives.__file__}:dealt_at_random" if name == DEALT else "group"
    options: dict[str, Any] = {
        "model": {"name": "smollm2-135m", "lora_rank": 16, "template_arguments": "none"},
        "generation": {"max_completion_length": 8, "stop": ("\n",)},
        "round": {"questions": 2},
        "training": {"scale_rewards": rule},
    }
    rounds = LONGER if name == GENERALIST else ROUNDS
    size = {"rounds": rounds, "evaluate_every": EVERY, "evaluate_questions": 16, "evaluate_samples": 1}
    return runner.make(name, name.split()[-1], seed, RATE, nodes=len(TASKS), node_tasks=TASKS, **options, **size)


def curve(report: Report, kind: str) -> tuple[list[int], list[float]]:
    """Rounds, and held-out accuracy after each."""
    (arm,) = report["arms"].values()
    return arm["held_out"]["rounds"], arm["held_out"][kind][0]


def final(report: Report, kind: str = "all_tasks") -> float:
    rounds, accuracy = curve(report, kind)
    return accuracy[rounds.index(ROUNDS)]


def for_the_same_time(generalist: Report, shared: Report) -> float:
    """Accuracy of one generalist when it had spent the CPU time that a node which shares spends."""
    return specialists.accuracy(generalist, "cpu_seconds", specialists.spending(shared, "cpu_seconds")[-1] / len(TASKS))


def comparisons(reports: Mapping[tuple[str, int], Report]) -> list[Comparison]:
    """Sharing against the other arms, seed by seed, where both have been run. All are one family."""
    lines: dict[str, list[tuple[float, float]]] = {}
    for seed in SEEDS:
        if (shared := reports.get((SHARED, seed))) is None:
            continue
        if alone := reports.get((ALONE, seed)):
            for kind, words in KINDS.items():
                lines.setdefault(f"alone: {words}", []).append((final(shared, kind), final(alone, kind)))
        if generalist := reports.get((GENERALIST, seed)):
            lines.setdefault("generalist: equal tokens", []).append((final(shared), final(generalist)))
            same_time = for_the_same_time(generalist, shared)
            lines.setdefault("generalist: equal CPU", []).append((final(shared), same_time))
        if dealt := reports.get((DEALT, seed)):
            lines.setdefault("dealt at random", []).append((final(shared), final(dealt)))
    found = [(name, compare(name, *map(list, zip(*pairs, strict=True)))) for name, pairs in lines.items()]
    return [each for _, each in specialists.corrected(found)]


def draw(reports: Mapping[tuple[str, int], Report], path: Path) -> None:
    """Held-out accuracy by rounds, mean and interval over seeds: a panel for each kind of tasks."""
    figure = Figure(figsize=(11.0, 3.4), dpi=110)
    for axes, (kind, words) in zip(figure.subplots(1, len(KINDS), sharey=True), KINDS.items(), strict=True):
        for number, name in enumerate(NAMES):
            curves = [curve(report, kind) for (other, _), report in reports.items() if other == name]
            if not curves or curves[0][1][0] is None:  # a generalist has no tasks that only others ask
                continue
            rounds, values = curves[0][0], list(zip(*(accuracy for _, accuracy in curves), strict=True))
            axes.plot(rounds, [float(np.mean(each)) for each in values], f"C{number}", label=name)
            ends = [interval(each) or (each[0], each[0]) for each in values]
            axes.fill_between(rounds, *zip(*ends, strict=True), alpha=0.15, color=f"C{number}")
        axes.set(title=words, xlabel="rounds", ylim=(0, 1))
        axes.spines[["top", "right"]].set_visible(False)
    figure.axes[0].set_ylabel("held-out accuracy")
    figure.axes[-1].legend(*figure.axes[0].get_legend_handles_labels(), fontsize=8, frameon=False, loc=(0.3, 0.38))
    figure.tight_layout()
    figure.savefig(path)


def main() -> None:
    parser = command.parser("lab.studies.real_specialists", __doc__)
    runner.add_options(parser)
    options = parser.parse_args()
    wanted = [run(name, seed) for seed in SEEDS for name in NAMES]
    if not runner.do(wanted, options):
        return
    out = command.out(options)
    runner.listed(wanted, options.runs, out / "real_specialists.csv")
    reports = {(each.name, each.seed): found for each in wanted if (found := each.report(options.runs)) is not None}
    compared = comparisons(reports)
    command.show(
        ("sharing against", *COMPARED[1:2], "that", "sharing", *COMPARED[4:]), list(map(compared_line, compared))
    )
    draw(reports, out / "real_specialists.png")
    content = {"rounds": ROUNDS, "rate": RATE, "seeds": list(SEEDS), "comparisons": list(map(asdict, compared))}
    (out / "real_specialists.json").write_text(json.dumps(content) + "\n")
    command.finish(options, content)


if __name__ == "__main__":
    main()
