"""Draws two figures of the results from their raw numbers, with names that a reader knows:

    python -m lab.studies.figures

`sharing/sharing.png` shows how fast four starters learn alone and with others, and
`poisoning/poisoning.png` what attackers teach to the others. The numbers were measured at the
commits that docs/results/sharing.md and poisoning.md name; nothing is measured here.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from lab.benchmarks import command
from swarm_node.simulation.plot import COLOURS, draw_seeds, new_figure
from swarm_node.telemetry.learning import moving_average

# Starters, with the share of their groups that teach something at the start, as
# docs/explanation/starters.md has it
STARTERS = {"dense": "1 in 2", "rare": "1 in 5", "very_rare": "1 in 20", "rarest": "1 in 200"}
ARMS = {
    "8/0": "alone: 8 groups of its own",
    "6/2": "sharing: 6 of its own, 2 of others",
    "4/4": "sharing: 4 of its own, 4 of others",
    "2/6": "sharing: 2 of its own, 6 of others",
}
DEFENCES = {
    "none": "no defence",
    "ngrams": "ngrams only",
    "positives": "positives only",
    "regroup+clip": "regroup and clip",
    "regroup": "regroup only",
    "rescue": "rescue only",
    "default": "the default defence",
}
QUESTIONS = 9  # of a round, whose rewards the raw numbers add up
WINDOW = 10  # rounds
HOSTILE = 0.5  # of the nodes of the swarm

Raw = Mapping[str, Any]


def sharing(raw: Mapping[str, Sequence[Raw]]) -> Figure:
    """The share of right completions by round: a panel for each starter, a line for each arm."""
    figure = new_figure(14.0, 4.4)
    panels = list(figure.subplots(1, len(STARTERS), sharey=True))
    for axes, (starter, share) in zip(panels, STARTERS.items(), strict=True):
        by_arm = {found["variant"]: found["rewards"] for found in raw[starter]}
        for (arm, words), colour in zip(ARMS.items(), COLOURS, strict=False):
            shares = [[reward / QUESTIONS for reward in rewards] for rewards in by_arm[arm]]
            seeds = [moving_average(values, WINDOW) for values in shares]
            draw_seeds(axes, rounds_of(seeds), seeds, colour, words)
        finish(axes, 0.6, f"{share} groups teaches at first\n(starter {starter})")
    panels[0].set_ylabel("right completions")
    legend(figure, panels[0], "groups that a node trains on in a round")
    return figure


def poisoning(raw: Sequence[Raw]) -> Figure:
    """Attack success and accuracy by round: a line for each defence, half of the swarm hostile."""
    figure = new_figure(12.0, 5.2)
    panels = list(figure.subplots(1, 2))
    kinds = {
        "success_by_round": (1.0, "answers of the victims that have the attackers' phrase"),
        "accuracy_by_round": (0.4, "answers of the victims that are right"),
    }
    of_stealth = [found for found in raw if found["kind"] == "stealth"]
    attacked = {f["defence"]: f for f in of_stealth if f["share"] == HOSTILE}
    (honest,) = (f for f in of_stealth if f["share"] == 0 and f["defence"] == "none")
    for axes, (key, (top, words)) in zip(panels, kinds.items(), strict=True):
        for (defence, name), colour in zip(DEFENCES.items(), COLOURS, strict=True):
            draw_seeds(
                axes, rounds_of(attacked[defence][key]), attacked[defence][key], colour, name
            )
        draw_seeds(axes, rounds_of(honest[key]), honest[key], "#000000", "no attackers")
        axes.lines[-1].set_linestyle("--")
        finish(axes, top, words)
    legend(figure, panels[0], "half of the swarm is hostile, and the others use")
    return figure


def rounds_of(seeds: Sequence[Sequence[float]]) -> list[float]:
    return [float(number) for number in range(1, len(seeds[0]) + 1)]


def finish(axes: Axes, top: float, title: str) -> None:
    """Title, axes up to this value, and grid of a panel."""
    axes.set_title(title, loc="left", fontsize=10.5)
    axes.set(xlabel="round", ylim=(0.0, top))
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.grid(axis="y", alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)


def legend(figure: Figure, panel: Axes, title: str) -> None:
    """One legend below all panels, in which a line is wide enough for words."""
    lines, names = panel.get_legend_handles_labels()
    figure.tight_layout(rect=(0.0, 0.17, 1.0, 1.0), w_pad=2.0)
    figure.legend(lines, names, title=title, frameon=False, ncols=4, loc="lower center")


def main() -> None:
    parser = command.parser("lab.studies.figures", __doc__)
    command.add_out(parser)
    parser.set_defaults(out=command.ROOT / "docs" / "results")
    options = parser.parse_args()
    out: Path = options.out
    raw = {
        starter: json.loads((out / "sharing" / f"{starter}.json").read_text())["results"]
        for starter in STARTERS
    }
    sharing(raw).savefig(out / "sharing" / "sharing.png")
    poisoning(json.loads((out / "poisoning" / "dense.json").read_text())).savefig(
        out / "poisoning" / "poisoning.png"
    )


if __name__ == "__main__":
    main()
