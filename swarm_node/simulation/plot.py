"""rewards.png and accuracy.png: the effect of sharing, for readers who do not know the paper. Only
this file imports matplotlib at its top, and uses no display. The colours are those of Okabe and
Ito, which the colour-blind can tell apart.
"""

from collections.abc import Sequence
from itertools import cycle

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, MaxNLocator, PercentFormatter

from swarm_node.rollouts.groups import mean
from swarm_node.simulation.arms import words_of
from swarm_node.simulation.report import ArmSummary, Report
from swarm_node.telemetry.learning import moving_average

COLOURS = ("#555555", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
DPI = 120
LEGEND = "groups that a node trains on in a round"
KINDS = {"all_tasks": "all tasks of the swarm", "local_tasks": "tasks that a node practises itself"}
KINDS |= {"other_tasks": "tasks that only others practise"}


def figures(report: Report) -> dict[str, Figure]:
    """The figures by name: `rewards`, and `accuracy` where held-out questions were asked."""
    asked = any(arm.held_out for arm in report.arms.values())
    return {"rewards": rewards(report)} | ({"accuracy": accuracy(report)} if asked else {})


def rewards(report: Report) -> Figure:
    """The share of correct completions by round, a line for each arm."""
    figure = new_figure(9.0, 5.2)
    axes = figure.subplots()
    window = max(1, min(20, report.rounds // 10))
    rounds = [float(number) for number in range(1, report.rounds + 1)]
    for (name, arm), colour in zip(report.arms.items(), cycle(COLOURS), strict=False):
        seeds: list[list[float]] = []
        for rewards in arm.rewards:
            shares = [reward / report.questions for reward in rewards]
            seeds.append(moving_average(shares, window))
        words = f"{label(name, arm)}, at the end {mean(arm.final_reward):.1%}"
        draw_seeds(axes, rounds, seeds, colour, words)
    axes.set_ylim(0.0, min(1.0, 1.05 * axes.get_ylim()[1]))
    what = (
        "Share of correct completions"
        if report.scoring == "exact"
        else "Mean reward of a completion"
    )
    axes.set_title(
        f"moving average of {window} rounds" if window > 1 else "", loc="left", fontsize=10.5
    )
    axes.set_xlabel("round")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend(frameon=False, title=LEGEND, loc="upper left")
    finish(figure, [axes], what, report)
    return figure


def accuracy(report: Report) -> Figure:
    """Held-out accuracy by round and by trained tokens of a node, for each kind of tasks: all of
    them and, where nodes practise different ones, a node's own and others'.
    """
    asked = {name: arm for name, arm in report.arms.items() if arm.held_out}

    def was_asked(kind: str) -> bool:
        return any(_asked_after_every(arm, kind) for arm in asked.values())

    kinds = list(filter(was_asked, KINDS))
    if "other_tasks" not in kinds:
        kinds = ["all_tasks"]  # a node's own are the same
    height = 4.8 if len(kinds) == 1 else 8.2
    figure = new_figure(4.6 * max(2, len(kinds)), height)
    # One kind has its two panels side by side, several have a row for each axis
    shape = (1, 2) if len(kinds) == 1 else (2, len(kinds))
    panels = figure.subplots(*shape, sharey=True, squeeze=False).reshape(2, len(kinds))
    for by_round, by_tokens, kind in zip(*panels, kinds, strict=True):
        for (name, arm), colour in zip(asked.items(), cycle(COLOURS), strict=False):
            if answers := _asked_after_every(arm, kind):
                rounds, tokens, seeds = answers
                draw_seeds(by_round, rounds, seeds, colour, label(name, arm))
                draw_seeds(by_tokens, tokens, seeds, colour, label(name, arm))
        by_round.set_title(KINDS[kind], loc="left", fontsize=10.5)
        by_round.set_xlabel("round")
        by_round.xaxis.set_major_locator(MaxNLocator(integer=True))
        by_tokens.set_xlabel("trained tokens of a node")
        by_tokens.xaxis.set_major_formatter(EngFormatter(sep=""))
    first, *others = panels.flat
    highest = max(axes.dataLim.ymax for axes in panels.flat)
    first.set_ylim(0.0, min(1.0, 1.25 * highest) or 1.0)
    for axes in panels.flat:
        axes.set_xlim(0.0, None)
    first.legend(frameon=False, title=LEGEND, loc="upper left")
    finish(figure, [first, *others], "Accuracy on held-out questions", report)
    return figure


def _asked_after_every(
    arm: ArmSummary, kind: str
) -> tuple[list[float], list[float], list[list[float]]] | None:
    """Rounds, trained tokens of a node, and each seed's accuracies on a kind of tasks. None where
    some were not measured.
    """
    known = arm.held_out
    if known is None:
        return None
    seeds = list(map(_measured, getattr(known, kind)))
    rounds = [float(number) for number in known.rounds]
    if not rounds or any(len(row) != len(rounds) for row in seeds):
        return None
    nodes = len(arm.node_rewards[0])
    tokens = [mean(values) / nodes for values in zip(*known.trained_tokens, strict=True)]
    return rounds, tokens, seeds


def new_figure(width: float, height: float) -> Figure:
    """An empty figure. Width and height are in inches."""
    # Shipped with matplotlib: the same picture everywhere
    matplotlib.rcParams["font.family"] = "DejaVu Sans"
    figure = Figure(figsize=(width, height), dpi=DPI)
    FigureCanvasAgg(figure)
    return figure


def _measured(row: Sequence[float | None]) -> list[float]:
    return [value for value in row if value is not None]


def draw_seeds(
    axes: Axes, xs: Sequence[float], seeds: Sequence[Sequence[float]], colour: str, name: str
) -> None:
    """Draws the mean over seeds, with shading from the lowest seed to the highest."""
    columns = list(zip(*seeds, strict=True))
    means = list(map(mean, columns))
    marker = "o" if len(xs) < 12 else ""  # a single point would not show as a line
    axes.plot(xs, means, color=colour, linewidth=2.2, marker=marker, label=name)
    if len(seeds) > 1:
        low = list(map(min, columns))
        high = list(map(max, columns))
        axes.fill_between(xs, low, high, color=colour, alpha=0.13, linewidth=0)


def finish(figure: Figure, panels: Sequence[Axes], title: str, report: Report) -> None:
    """Adds title, subline and grid."""
    for axes in panels:
        whole = axes.get_ylim()[1] > 0.05
        axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0 if whole else None))
        axes.grid(axis="y", alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
    figure.text(0.012, 0.935, title, fontsize=13, fontweight="bold")
    figure.text(0.012, 0.885, subline(report), fontsize=9.5, color="#444444")
    figure.tight_layout(rect=(0.0, 0.0, 1.0, 0.87), w_pad=2.0)


def subline(report: Report) -> str:
    """The line below the headline: nodes, questions and seeds."""
    seeds = len(report.seeds)
    repeats = (
        "one seed: this may be chance"
        if seeds == 1
        else f"mean of {seeds} seeds, shading from lowest to highest"
    )
    return (
        f"{len(report.nodes)} nodes, each with its own model, {report.questions} questions a "
        f"round; {repeats}."
    )


def label(name: str, arm: ArmSummary) -> str:
    """The name of an arm in a legend, for somebody who does not know how arms are written:
    `sharing: 4 own, 4 of others` for 4/4, and `alone: 8 own, dynamic sampling` for
    8/0:dynamic_sampling.
    """
    _, *ways = words_of(name).split(", ")
    groups = f"alone: {arm.local_groups} own"
    if arm.external_groups:
        groups = f"sharing: {arm.local_groups} own, {arm.external_groups} of others"
    return ", ".join([groups, *ways])
