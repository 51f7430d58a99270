"""rewards.png: the effect of sharing, for readers who do not know the paper. Only this file imports matplotlib, and
uses no display. The colours are those of Okabe and Ito, which the colour-blind can tell apart."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from swarm_node.extensions.simulation.report import ArmSummary, Report
from swarm_node.extensions.simulation.statistics import ci95
from swarm_node.rollouts.reports import mean
from swarm_node.telemetry.series import moving_average

COLOURS = ("#555555", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
SIZE = (11.0, 5.2)  # inches
DPI = 120
LABEL_GAP = 0.055  # smallest distance of two labels, as a share of the axis


def draw(report: Report, path: Path) -> None:
    """PNG or SVG, by the end of its name. Raises OSError where the file can't be written."""
    matplotlib.rcParams["font.family"] = "DejaVu Sans"  # shipped with matplotlib: the same picture everywhere
    figure = Figure(figsize=SIZE, dpi=DPI)
    FigureCanvasAgg(figure)
    curves, bars = figure.subplots(1, 2, width_ratios=(2.5, 1.0))
    draw_curves(curves, report)
    draw_bars(bars, report)
    figure.text(0.012, 0.935, headline(report), fontsize=14, fontweight="bold")
    figure.text(0.012, 0.885, subline(report), fontsize=9.5, color="#444444")
    figure.tight_layout(rect=(0.0, 0.0, 1.0, 0.87), w_pad=2.5)
    save(figure, path)


def save(figure: Figure, path: Path) -> None:
    """Whole or not at all. Raises OSError where the file can't be written."""
    part = path.with_name(f".{path.name}.part")
    try:
        figure.savefig(part, format=path.suffix.removeprefix("."))
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def headline(report: Report) -> str:
    """The result in words: what is right at the end in the best arm and in the first, and no factor between them."""
    names = list(report.arms)
    first = report.arms[names[0]]
    base = "training alone" if first.external_groups == 0 else names[0]
    if len(names) == 1:
        return f"{names[0]}: {_at_the_end(first)} at the end"
    best_name, best = max(list(report.arms.items())[1:], key=lambda item: mean(item[1].final_reward))
    what = f"Sharing ({best_name})" if best.external_groups else best_name
    unsure = ", but the intervals overlap" if overlap(first.final_reward, best.final_reward) else ""
    return f"{what}: {_at_the_end(best)} at the end, {base}: {_at_the_end(first)}{unsure}"


def _at_the_end(arm: ArmSummary) -> str:
    return f"{mean(arm.final_reward):.1%}".replace("%", " %")


def overlap(one: Sequence[float], other: Sequence[float]) -> bool:
    """Whether the intervals of two arms' seeds overlap, so that chance may explain the difference. False for single
    seeds."""
    first, second = ci95(one), ci95(other)
    return first is not None and second is not None and abs(mean(one) - mean(other)) < first + second


def subline(report: Report) -> str:
    """The line below the headline: nodes, questions, seeds and arms."""
    seeds = len(report.seeds)
    repeats = (
        "one seed: this may be chance"
        if seeds == 1
        else f"mean of {seeds} seeds, shading from lowest to highest, bars ± 95 %"
    )
    return (
        f"{len(report.nodes)} nodes, each with its own model, {report.questions} questions a round; {repeats}. "
        "Arms: local / external groups trained on."
    )


def draw_curves(axes: Axes, report: Report) -> None:
    """Share of right completions by round, a line for each arm."""
    window = max(1, min(20, report.rounds // 10))
    rounds = range(1, report.rounds + 1)
    ends: list[tuple[float, str, str]] = []
    top = 0.0
    for index, (name, arm) in enumerate(report.arms.items()):
        colour = COLOURS[index % len(COLOURS)]
        seeds = [moving_average([reward / report.questions for reward in rewards], window) for rewards in arm.rewards]
        middle = [mean(values) for values in zip(*seeds, strict=True)]
        if len(seeds) > 1:
            low, high = _band(seeds)
            axes.fill_between(rounds, low, high, color=colour, alpha=0.13, linewidth=0)
            for line in seeds:
                axes.plot(rounds, line, color=colour, alpha=0.3, linewidth=0.7)
        axes.plot(rounds, middle, color=colour, linewidth=2.2, solid_capstyle="round")
        ends.append((middle[-1], label(name, arm), colour))
        top = max(top, *(max(line) for line in seeds))
    limit = min(1.0, top * 1.1) if top > 0 else 1.0
    axes.set_ylim(0.0, limit)
    span = max(1, report.rounds - 1)
    axes.set_xlim(1 - 0.01 * span, report.rounds + 0.14 * span)  # room for the labels
    _label_ends(axes, ends, report.rounds + 0.015 * span, limit)
    ticks = MaxNLocator(integer=True).tick_values(1, report.rounds)
    axes.set_xticks([tick for tick in ticks if 1 <= tick <= report.rounds])
    what = "Share of right completions" if report.scoring == "exact" else "Mean reward of a completion"
    smooth = f"moving average of {window} rounds" if window > 1 else "every round"
    axes.set_title(f"{what}\n({smooth})", loc="left", fontsize=10.5)
    axes.set_xlabel("round")
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=None if limit < 0.05 else 0))
    axes.grid(axis="y", alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)


def draw_bars(axes: Axes, report: Report) -> None:
    """Cumulative reward, a bar for each arm."""
    arms = list(report.arms.items())
    top = max(arm.mean + (arm.ci95 or 0.0) for _, arm in arms) or 1.0
    for index, (_, arm) in enumerate(arms):
        axes.bar(index, arm.mean, color=COLOURS[index % len(COLOURS)], alpha=0.85, width=0.68)
        if arm.ci95 is not None:
            axes.errorbar(index, arm.mean, yerr=arm.ci95, color="black", capsize=4, linewidth=1.1)
        words = f"{arm.mean:.0f}" if arm.mean >= 10 else f"{arm.mean:.2g}"
        axes.text(index, arm.mean + (arm.ci95 or 0.0) + 0.02 * top, words, ha="center", va="bottom", fontsize=9)
    axes.set_ylim(0.0, top * 1.2)
    axes.set_xticks(range(len(arms)), [name for name, _ in arms])
    axes.set_title("Cumulative reward\n(summed over rounds)", loc="left", fontsize=10.5)
    axes.set_xlabel("local / external groups")
    axes.grid(axis="y", alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)


def label(name: str, arm: ArmSummary) -> str:
    """The arm's name for people."""
    return f"{name} alone" if arm.external_groups == 0 else name


def _band(seeds: Sequence[Sequence[float]]) -> tuple[list[float], list[float]]:
    """Lowest and highest seed at every round."""
    columns = list(zip(*seeds, strict=True))
    return [min(column) for column in columns], [max(column) for column in columns]


def _label_ends(axes: Axes, ends: Sequence[tuple[float, str, str]], x: float, limit: float) -> None:
    """Labels at the right end of the curves, from the bottom up, pushed apart where curves meet, kept inside."""
    ordered = sorted((max(height, 0.025 * limit), text, colour) for height, text, colour in ends)
    heights: list[float] = []
    for height, _, _ in ordered:
        heights.append(max(height, heights[-1] + LABEL_GAP * limit) if heights else height)
    for index in range(len(heights) - 1, -1, -1):
        ceiling = heights[index + 1] - LABEL_GAP * limit if index + 1 < len(heights) else 0.98 * limit
        heights[index] = min(heights[index], ceiling)
    for height, (_, text, colour) in zip(heights, ordered, strict=True):
        axes.text(x, height, text, color=colour, va="center", fontsize=10, fontweight="bold")
