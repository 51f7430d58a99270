"""Figures name arms and defences in words, and show what the tables beside them say."""

import json
from pathlib import Path
from statistics import fmean

from matplotlib.axes import Axes

from lab.studies.figures import HOSTILE, STARTERS, poisoning, sharing

RESULTS = Path(__file__).parents[3] / "docs" / "results"


def ends(axes: Axes, last: int) -> dict[str, float]:
    """The mean of the last points of every line, by its name."""
    return {
        str(line.get_label()): fmean(map(float, list(line.get_ydata())[-last:]))
        for line in axes.lines
    }


def test_the_figure_of_sharing_says_whose_groups_an_arm_trains_on_and_how_well() -> None:
    raw = {
        starter: json.loads((RESULTS / "sharing" / f"{starter}.json").read_text())["results"]
        for starter in STARTERS
    }
    very_rare = sharing(raw).axes[2]
    assert {label: round(share, 2) for label, share in ends(very_rare, 1).items()} == {
        "alone: 8 groups of its own": 0.28,
        "sharing: 6 of its own, 2 of others": 0.43,
        "sharing: 4 of its own, 4 of others": 0.43,
        "sharing: 2 of its own, 6 of others": 0.43,
    }


def test_the_figure_of_poison_has_the_figures_of_the_page() -> None:
    raw = json.loads((RESULTS / "poisoning" / "dense.json").read_text())
    success = ends(poisoning(raw).axes[0], 10)
    page = (RESULTS / "poisoning.md").read_text(encoding="utf-8")
    for name, row in (("no defence", "none"), ("the default defence", "**default**")):
        assert f"| {HOSTILE:.0%} ".replace("%", " %") + f"| {row} | {success[name]:.2f} " in page
