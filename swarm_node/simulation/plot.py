"""rewards.png and accuracy.png: the effect of sharing, for readers who do not know the paper. Only
this file imports matplotlib at its top, and uses no display. The colours are those of Okabe and
Ito, which the colour-blind can tell apart.
"""

from collections.abc import Sequence

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
    for (name, arm), colour in zip(report.arms.items(), COLOURS * len(report.arms), strict=False):
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
    axes.legend(frameon=False, title="local / external groups", loc="upper left")
    finish(figure, [axes], what, report)
    return figure


def accuracy(report: Report) -> Figure:
    """Held-out accuracy by trained tokens of a node: a panel each for all tasks, for a node's own,
    and for others'.
    """
    figure = new_figure(12.0, 4.8)
    panels = list(figure.subplots(1, len(KINDS), sharey=True))
    for (name, arm), colour in zip(report.arms.items(), COLOURS * len(report.arms), strict=False):
        if (known := arm.held_out) is None:
            continue
        tokens = [
            mean(values) / len(arm.node_rewards[0])
            for values in zip(*known.trained_tokens, strict=True)
        ]
        for axes, kind in zip(panels, KINDS, strict=True):
            seeds = list(map(_known, getattr(known, kind)))
            if all(len(row) == len(tokens) for row in seeds):
                draw_seeds(axes, tokens, seeds, colour, label(name, arm))
    for axes, words in zip(panels, KINDS.values(), strict=True):
        axes.set_title(words, loc="left", fontsize=10.5)
        axes.set_xlabel("trained tokens of a node")
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
        axes.set(ylim=(0.0, 1.0), xlim=(0.0, None))
    panels[0].legend(frameon=False, title="local / external groups", loc="upper left")
    finish(figure, panels, "Accuracy on held-out questions", report)
    return figure


def new_figure(width: float, height: float) -> Figure:
    """An empty figure. Width and height are in inches."""
    # Shipped with matplotlib: the same picture everywhere
    matplotlib.rcParams["font.family"] = "DejaVu Sans"
    figure = Figure(figsize=(width, height), dpi=DPI)
    FigureCanvasAgg(figure)
    return figure


def _known(row: Sequence[float | None]) -> list[float]:
    return [value for value in row if value is not None]


def draw_seeds(
    axes: Axes, xs: Sequence[float], seeds: Sequence[Sequence[float]], colour: str, name: str
) -> None:
    """Draws the mean over seeds, with shading from the lowest seed to the highest."""
    columns = list(zip(*seeds, strict=True))
    marker = "o" if len(xs) < 12 else ""  # a single point would not show as a line
    axes.plot(
        xs,
        [mean(column) for column in columns],
        color=colour,
        linewidth=2.2,
        marker=marker,
        label=name,
    )
    if len(seeds) > 1:
        low = list(map(min, columns))
        high = list(map(max, columns))
        axes.fill_between(xs, low, high, color=colour, alpha=0.13, linewidth=0)


def finish(figure: Figure, panels: Sequence[Axes], title: str, report: Report) -> None:
    """Adds title, subline and grid."""
    for axes in panels:
        axes.yaxis.set_major_formatter(PercentFormatter(1.0))
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
    """The name of an arm in a legend, such as `8/0 alone` for 8/0, or `8/0 alone, dynamic sampling`
    for 8/0:dynamic_sampling.
    """
    groups, *ways = words_of(name).split(", ")
    kind = "sharing" if arm.external_groups else "alone"
    return ", ".join([f"{groups} {kind}", *ways])
