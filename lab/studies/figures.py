"""Figures of studies: a row of panels for each case, by rounds and by what it cost."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, PercentFormatter

from swarm_node.extensions.simulation.plot import COLOURS

AXES = {"rounds": "rounds", "trained_tokens": "trained tokens, all nodes", "cpu_seconds": "CPU seconds, all nodes"}


def draw_cases(
    cases: Mapping[str, Mapping[str, Mapping[str, Any]]], path: Path, titles: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Held-out accuracy of all tasks: a row for each case, a column for each axis, a line for each arm with its
    95 % interval; dashed the tasks that a node never asks itself. `titles`: what a case is called."""
    if not cases:
        return
    figure = Figure(figsize=(4.0 * len(AXES), 3.0 * len(cases) + 0.4), dpi=110)
    panels = figure.subplots(len(cases), len(AXES), squeeze=False, sharey=True)
    for line, (case, arms) in zip(panels, cases.items(), strict=True):
        for panel, (key, words) in zip(line, AXES.items(), strict=True):
            for colour, (arm, curve) in zip(COLOURS, arms.items(), strict=False):
                _line(panel, curve, key, colour, f"{arm} alone" if arm.endswith("/0") else arm)
            panel.set_xlabel(words, fontsize=8.5)
            panel.xaxis.set_major_formatter(EngFormatter(sep=""))
            panel.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
            panel.spines[["top", "right"]].set_visible(False)
            panel.grid(alpha=0.25)
        seeds = min(curve["seeds"] for curve in arms.values())
        line[0].set_title(f"{titles.get(case, case)} ({seeds} seeds)", loc="left", fontsize=10.5, fontweight="bold")
        line[0].set_ylabel("held-out accuracy", fontsize=8.5)
        if any(curve["other"] for curve in arms.values()):
            line[0].plot([], [], color="0.4", linewidth=1.2, linestyle="--", label="tasks that only others ask")
        line[0].legend(fontsize=8, frameon=False, loc="upper left")
    panels[0][0].set_ylim(0, 1.25 * highest(cases))  # room for the legend
    figure.tight_layout()
    figure.savefig(path)


def highest(cases: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> float:
    """The largest value of any line."""
    return max(float(max(curve["all"])) for arms in cases.values() for curve in arms.values())


def _line(panel: Axes, curve: Mapping[str, Any], key: str, colour: str, label: str) -> None:
    panel.plot(curve[key], curve["all"], color=colour, linewidth=2, label=label)
    if all(curve["all_interval"]):
        low, high = zip(*curve["all_interval"], strict=True)
        panel.fill_between(curve[key], low, high, color=colour, alpha=0.15, linewidth=0)
    if curve["other"]:
        panel.plot(curve[key], curve["other"], color=colour, linewidth=1.2, linestyle="--")
