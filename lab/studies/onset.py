"""When does a swarm begin to learn? The rarer informative groups are, and the fewer nodes share them, the later.

    python -m lab.studies.onset --at-most 40        # goes on where it stopped
    python -m lab.studies.onset --report

N nodes with G questions a round, of which a share q is informative at the start, have N G q informative groups a round,
and the first one after about 1 / (N G q) rounds. Starters have q from 0.01 to 0.5. Every node may train on all groups
of the others. Onset is the round by which the mean reward of SMOOTH rounds is `LEVEL`. A law a + c (N G q)^-b is fitted
on one half of the seeds, and its cells are tested on the other, both ways. For the figure a real model that does not
learn says which q its tasks have.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy.optimize import curve_fit

from lab.benchmarks import command
from lab.studies import runner
from lab.studies.equal_price import SETTINGS
from lab.studies.runner import Run

STARTERS = {"dense": 60, "rare": 60, "very_rare": 100, "rarest": 200}  # rounds
NODES = (1, 2, 4, 8)
QUESTIONS, RATE, SEEDS = 9, 6e-4, range(6000, 6004)  # two of them test what is fitted on the other two
SMOOTH, LEVEL = 5, 0.2  # of the levels 0.1, 0.15, 0.2, 0.25 and 0.3 a law predicts this one best, and 0.15 as well
EARLY = 2  # rounds whose informative groups are those of the start
WITHIN = 1.5
HALVES = (slice(0, 2), slice(2, 4))
REAL, STILL, REAL_ROUNDS = "smollm2-135m", 1e-12, 4  # the rate at which nothing is learned


Law = tuple[float, float, float]  # a, c and b


@dataclass(frozen=True)
class Cell:
    """A starter in a swarm of one size."""

    starter: str
    nodes: int
    q: float  # share of informative groups at the start
    onsets: tuple[float, ...]  # rounds, by seed; infinite where it never came

    @property
    def supply(self) -> float:
        """Informative groups a round, in the whole swarm."""
        return self.nodes * QUESTIONS * self.q


def run(starter: str, nodes: int, seed: int) -> Run:
    arm = f"{QUESTIONS}/{QUESTIONS * (nodes - 1)}"
    sizes: dict[str, Any] = {"nodes": nodes, "rounds": STARTERS[starter]}
    return runner.make(f"{starter}, {nodes} nodes", arm, seed, RATE, model={"name": starter}, **sizes)


def real(task: str) -> Run:
    """A node of the real model that asks one task."""
    options = {**SETTINGS[REAL].options, "evaluate_every": 0, "round": {"questions": QUESTIONS}}
    size: dict[str, Any] = {"nodes": 1, "node_tasks": (task,), "rounds": REAL_ROUNDS}
    return runner.make(f"{REAL}, {task}", f"{QUESTIONS}/0", SEEDS[0], STILL, **options, **size)


def shares(runs: Mapping[str, Run], folder: Path) -> dict[str, float]:
    """q by task, of what is done."""
    found = {task: run.report(folder) for task, run in runs.items()}
    arms = {task: next(iter(report["arms"].values())) for task, report in found.items() if report}
    return {task: fmean(arm["informative_share"][0]) for task, arm in arms.items()}


def onset(rewards: Sequence[float]) -> float:
    """The round by which the mean of SMOOTH rounds is LEVEL."""
    smooth = np.convolve(rewards, np.ones(SMOOTH) / SMOOTH, "valid")
    reached = np.flatnonzero(smooth >= LEVEL)
    return float(reached[0] + SMOOTH) if len(reached) else float("inf")


def cells(runs: Sequence[Run], folder: Path) -> list[Cell]:
    """Of what is done. q is measured on the seeds of all sizes: it is the starter's."""
    found: dict[tuple[str, int], list[float]] = {}
    early: dict[str, list[float]] = {}
    for each in runs:
        if (report := each.report(folder)) is not None:
            (arm,), (starter, nodes) = report["arms"].values(), each.name.split(", ")
            came = onset([reward / QUESTIONS for reward in arm["rewards"][0]])
            found.setdefault((starter, int(nodes.split()[0])), []).append(came)
            early.setdefault(starter, []).extend(arm["informative_share"][0][:EARLY])
    return [Cell(starter, nodes, fmean(early[starter]), tuple(onsets)) for (starter, nodes), onsets in found.items()]


def fitted(of: Sequence[Cell], seeds: slice) -> Law:
    """a, c and b of onset = a + c (N G q)^-b, by least squares of logarithms."""
    points = [(cell.supply, came) for cell in of for came in cell.onsets[seeds] if np.isfinite(came)]
    supplies, onsets = (np.log(each) for each in zip(*points, strict=True))

    def told(supply: Any, a: float, c: float, b: float) -> Any:
        return np.logaddexp(a, c - b * supply)

    a, c, b = curve_fit(told, supplies, onsets, p0=(1.0, 2.0, 1.0))[0]
    return float(np.exp(a)), float(np.exp(c)), float(b)


def predicted(law: Law, supply: float) -> float:
    a, c, b = law
    return float(a + c * supply**-b)


def within(of: Sequence[Cell], law: Law, seeds: slice) -> float:
    """Share of cells whose median onset is predicted within the factor."""
    ratios = [median(cell.onsets[seeds]) / predicted(law, cell.supply) for cell in of if cell.onsets[seeds]]
    return fmean(1 / WITHIN <= ratio <= WITHIN for ratio in ratios)


def draw(of: Sequence[Cell], law: Law, measured: Mapping[str, float], path: Path) -> None:
    figure = Figure(figsize=(6.4, 4.2), dpi=110)
    axes = figure.subplots()
    for number, starter in enumerate(STARTERS):
        own = [cell for cell in of if cell.starter == starter]
        if own:
            axes.plot([c.supply for c in own], [median(c.onsets) for c in own], f"C{number}o-", label=starter)
    supplies = np.geomspace(0.02, 50)
    axes.plot(supplies, law[0] + law[1] * supplies ** -law[2], "k--", label=named(law))
    axes.plot(supplies, 1 / supplies, "0.7", linestyle=":", label="1 / (N G q)")
    for name, q in measured.items():
        axes.axvline(QUESTIONS * q, color="0.8", linewidth=0.8)
        axes.text(QUESTIONS * q, 300, f" {REAL}, {name}, N 1", rotation=90, fontsize=6, va="top", color="0.4")
    axes.set(xscale="log", yscale="log", xlabel="informative groups a round, N G q", ylabel="rounds to onset")
    axes.set_ylim(0.5, 400)
    axes.legend(frameon=False, fontsize=8)
    figure.tight_layout()
    figure.savefig(path)


def named(law: Law) -> str:
    return f"{law[0]:.1f} + {law[1]:.1f} (N G q)^-{law[2]:.2f}"


def main() -> None:
    parser = command.parser("lab.studies.onset", __doc__)
    runner.add_options(parser)
    options = parser.parse_args()
    wanted = [run(starter, nodes, seed) for seed in SEEDS for starter in STARTERS for nodes in NODES]
    tasks = {task: real(task) for task in SETTINGS[REAL].tasks}
    if not runner.do([*wanted, *tasks.values()], options):
        return
    out, of = command.out(options), cells(wanted, options.runs)
    laws, halves = [fitted(of, half) for half in HALVES], HALVES[::-1]
    lines = []
    for c in of:
        told = f"{1 / c.supply:.1f}", f"{predicted(laws[0], c.supply):.1f}"
        lines.append([c.starter, f"{c.nodes}", f"{c.q:.3f}", *told, " ".join(f"{came:.0f}" for came in c.onsets)])
    command.show(("starter", "nodes", "q", "1 / (N G q)", "law", "onsets by seed"), lines)
    plain = [within(of, (0.0, 1.0, 1.0), half) for half in halves]
    better = [within(of, law, half) for law, half in zip(laws, halves, strict=True)]
    for law, share, first in zip(laws, better, plain, strict=True):
        print(f"within a factor of {WITHIN}: {share:.0%} of cells by {named(law)}, {first:.0%} by 1 / (N G q)")
    measured = shares(tasks, options.runs)
    print(f"q of {REAL}: {', '.join(f'{task} {q:.3f}' for task, q in measured.items())}")
    draw(of, laws[0], measured, out / "onset.png")
    content = {"cells": list(map(asdict, of)), "laws": laws, "real": measured, "within": [better, plain]}
    (out / "onset.json").write_text(json.dumps(content) + "\n")
    command.finish(options, content)


if __name__ == "__main__":
    main()
