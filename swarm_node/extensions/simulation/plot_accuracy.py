"""accuracy.png: what nodes know of all tasks of their swarm, by rounds and by what it cost."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, PercentFormatter

from swarm_node.extensions.simulation.learned import HeldOut
from swarm_node.extensions.simulation.plot import COLOURS, DPI, label, save
from swarm_node.extensions.simulation.report import ArmCost, Report
from swarm_node.rollouts.reports import mean

SIZE = (13.0, 4.2)  # inches


def draw_accuracy(report: Report, path: Path) -> None:
    """Four panels that share their height: rounds, trained tokens, generated tokens, CPU seconds. PNG or SVG. Raises
    OSError where the file can't be written."""
    matplotlib.rcParams["font.family"] = "DejaVu Sans"
    figure = Figure(figsize=SIZE, dpi=DPI)
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, 4, sharey=True)
    for index, (name, arm) in enumerate(report.arms.items()):
        if arm.held_out is None:
            continue
        axes_of = x_axes(arm.held_out, report.cost[name])
        for axes, (title, xs) in zip(panels, axes_of.items(), strict=True):
            _lines(axes, xs, arm.held_out, COLOURS[index % len(COLOURS)], label(name, arm))
            axes.set_xlabel(title)
    for axes in panels:
        axes.set_ylim(bottom=0.0)
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    panels[0].yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    panels[0].set_ylabel("held-out accuracy, all tasks")
    panels[0].legend(frameon=False, title="local / external")
    figure.suptitle(
        f"{len(report.nodes)} nodes, {len(report.seeds)} seeds: mean, shading from lowest to highest seed. "
        "Dashed: tasks that a node never asks itself.",
        fontsize=10.5,
    )
    figure.tight_layout()
    save(figure, path)


def x_axes(known: HeldOut, cost: ArmCost) -> dict[str, list[float]]:
    """Mean over seeds, at every evaluation."""
    at = [number - 1 for number in known.rounds]
    return {
        "rounds": [float(number) for number in known.rounds],
        "trained tokens": _means(known.trained_tokens),
        "generated tokens": _means(known.generated_tokens),
        "CPU seconds": _means([[row[index] for index in at] for row in cost.cpu_seconds]),
    }


def _means(rows: Sequence[Sequence[float]]) -> list[float]:
    return [mean(list(values)) for values in zip(*rows, strict=True)]


def _lines(axes: Axes, xs: Sequence[float], known: HeldOut, colour: str, name: str) -> None:
    columns = list(zip(*known.all_tasks, strict=True))
    axes.plot(xs, [mean(list(values)) for values in columns], color=colour, linewidth=2.2, label=name)
    axes.fill_between(xs, [min(v) for v in columns], [max(v) for v in columns], color=colour, alpha=0.13, linewidth=0)
    others = [[value for value in values if value is not None] for values in zip(*known.other_tasks, strict=True)]
    if all(others):
        axes.plot(xs, [mean(values) for values in others], color=colour, linewidth=1.4, linestyle="--")
