"""Do puzzles teach? Tiny Temporal Clue puzzles on a CPU: before and after, and 16 training puzzles against many.

    python -m lab.studies.puzzle_learning --json      # docs/results/temporal_clue.md

Both arms start from the starter `puzzler`, with one configuration and the same held-out puzzles. `many`: every round
has new puzzles. `16`: the same sixteen, from a file. The last line of --json: `ratio` is the share of questions
answered rightly after training on many puzzles over that before. `--figure FILE` draws the curves. Runs are kept under
--runs and not repeated.
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any

import torch
from matplotlib.figure import Figure
from rich.console import Console
from transformers import AutoModelForCausalLM, AutoTokenizer

from lab.benchmarks import command
from lab.starters.puzzler import puzzles, rewards
from swarm_node import starters
from swarm_node.commands.run import run
from swarm_node.extensions.simulation.statistics import ci95
from swarm_node.extensions.temporal_clue.generate import Puzzle
from swarm_node.extensions.temporal_clue.make import as_entry
from swarm_node.settings import NodeConfig
from swarm_node.settings.sources import read_file
from swarm_node.telemetry.jsonlines import read_jsonlines

CONFIG = Path("configs/temporal_clue_small.toml")
TASK = "temporal_clue/tiny"
FEW = 16
HELD_OUT, HELD_OUT_SEED = 500, 2**34  # puzzles that neither the starter's recipe nor a node uses
FEW_SEED = 2**33
DRAWS = 4
RESAMPLES = 2_000
COLOURS = {"many": "#0072B2", str(FEW): "#D55E00"}


@dataclass(frozen=True)
class Shares:
    """By held-out puzzle the share of questions right."""

    sampled: list[float]  # mean of `DRAWS` completions
    likeliest: list[float]

    def __str__(self) -> str:
        both = (("sampled", self.sampled), ("likeliest", self.likeliest))
        return ", ".join(
            f"{name} {fmean(v):.3f} ({low:.3f} to {high:.3f})" for name, v in both for low, high in [bootstrap(v)]
        )


def main() -> None:
    parser = command.parser("lab.studies.puzzle_learning", __doc__)
    command.add_runs(parser)
    parser.add_argument("--model", default="puzzler", help="a starter or a folder")
    parser.add_argument("--rounds", type=int, default=80)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rate", type=float, default=3e-4)
    parser.add_argument("--arms", nargs="+", default=["many", str(FEW)])
    parser.add_argument("--figure", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    held_out = puzzles(HELD_OUT, HELD_OUT_SEED)
    model = starters.folder(options.model) if options.model in starters.NAMES else Path(options.model)
    before = shares(model, held_out)
    print(f"before: {before}", flush=True)
    arms = {arm: study(arm, options, held_out, before) for arm in options.arms}
    result = {
        "before": summary([before]),
        "arms": arms,
        "rounds": options.rounds,
        "rate": options.rate,
        "ratio": arms[options.arms[0]]["sampled"] / fmean(before.sampled),
    }
    if options.figure:
        draw(result, options.figure)
    command.finish(options, result)


def study(arm: str, options: argparse.Namespace, held_out: list[Puzzle], before: Shares) -> dict[str, Any]:
    """All seeds of one arm."""
    after, curves = [], []
    for seed in range(options.seeds):
        home = options.runs / f"{arm}-{options.rate}-{options.rounds}-{seed}"
        train(arm, seed, options, home)
        curves.append(curve(home))
        after.append(shares(sorted((home / "checkpoints").glob("[0-9]*"))[-1], held_out))
        print(f"{arm}, seed {seed}: {after[-1]}", flush=True)
    found = summary(after)
    rises = [gains(row.sampled, before.sampled) for row in after]
    found["rise"] = [fmean(row) for row in rises]
    low, high = bootstrap([fmean(column) for column in zip(*rises, strict=True)])
    found |= {"rise_interval": [low, high], "rise_half_over_seeds": ci95(found["rise"]), "curves": curves}
    print(f"{arm}: rise {fmean(found['rise']):.3f} ({low:.3f} to {high:.3f} over puzzles)", flush=True)
    return found


def summary(rows: Sequence[Shares]) -> dict[str, Any]:
    """Means over seeds and puzzles; the intervals are a bootstrap over puzzles of the mean over seeds."""
    found: dict[str, Any] = {}
    for name in ("sampled", "likeliest"):
        values = [fmean(column) for column in zip(*(getattr(row, name) for row in rows), strict=True)]
        found |= {name: fmean(values), f"{name}_interval": bootstrap(values)}
        found[f"{name}_by_seed"] = [fmean(getattr(row, name)) for row in rows]
    return found


def gains(after: Sequence[float], before: Sequence[float]) -> list[float]:
    return [one - other for one, other in zip(after, before, strict=True)]


def bootstrap(values: Sequence[float]) -> tuple[float, float]:
    """95 % interval of the mean, puzzles drawn with replacement."""
    random = Random(0)
    means = sorted(fmean(random.choices(values, k=len(values))) for _ in range(RESAMPLES))
    return means[round(0.025 * RESAMPLES)], means[round(0.975 * RESAMPLES) - 1]


def train(arm: str, seed: int, options: argparse.Namespace, home: Path) -> None:
    """One run in `home`, which goes on where it was interrupted."""
    values = read_file(CONFIG)
    values |= {"home": home, "max_rounds": options.rounds, "seed": seed, "threads": 1, "network": {"enabled": False}}
    values["model"]["name"] = options.model
    values["training"]["learning_rate"] = options.rate
    values["validation"]["tasks"] = [TASK]
    if arm != "many":
        file = options.runs / f"{arm}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps([as_entry("tiny", FEW_SEED, index) for index in range(int(arm))]))
        values["environment"] |= {"tasks": ["temporal_clue/published"], "puzzles": file}
    run(NodeConfig.model_validate(values), Console(quiet=True))


def curve(home: Path) -> list[tuple[int, float]]:
    """Validation reward by rounds done."""
    events = read_jsonlines(home / "events.jsonl")
    found = {event["round"]: event["reward"] for event in events if event["event"] == "Validated"}
    return sorted(found.items())


def shares(folder: Path, held_out: list[Puzzle]) -> Shares:
    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    draws = [rewards(model, tokenizer, held_out, seed=seed) for seed in range(DRAWS)]
    sampled = [fmean(column) for column in zip(*draws, strict=True)]
    return Shares(sampled, rewards(model, tokenizer, held_out, sampled=False))


def draw(result: dict[str, Any], file: Path) -> None:
    """Validation by round with the lowest and highest seed; the bars are other puzzles, with bootstrap intervals."""
    figure = Figure(figsize=(8, 4), layout="constrained")
    axis = figure.subplots()
    before = result["before"]
    for shift, (arm, found) in enumerate(result["arms"].items()):
        colour = COLOURS.get(arm, "#555555")
        rounds = [number for number, _ in found["curves"][0]]
        seeds = [[reward for _, reward in curve] for curve in found["curves"]]
        middle = [fmean(column) for column in zip(*seeds, strict=True)]
        words = f"{arm} training puzzles, {len(seeds)} seeds"
        axis.plot(rounds, middle, marker="o", markersize=3, color=colour, linewidth=2, label=words)
        lowest, highest = ([bound(c) for c in zip(*seeds, strict=True)] for bound in (min, max))
        axis.fill_between(rounds, lowest, highest, color=colour, alpha=0.15)
        end = rounds[-1] * (1.02 + 0.02 * shift)
        _bar(axis, end, found["sampled"], found["sampled_interval"], colour)
    _bar(axis, 0, before["sampled"], before["sampled_interval"], "black")
    axis.axhline(0.5, color="#999999", linestyle=":", linewidth=1, label="chance")
    axis.set(xlabel="round", ylabel="share of questions right")
    axis.set_title(
        f"Tiny puzzles. Lines: validation, shading lowest to highest seed. Bars: {HELD_OUT} others, before and after",
        loc="left",
        fontsize=10,
    )
    axis.legend(frameon=False, fontsize=9)
    axis.spines[["top", "right"]].set_visible(False)
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=110)


def _bar(axis: Any, x: float, value: float, interval: Sequence[float], colour: str) -> None:
    axis.errorbar(x, value, yerr=[[value - interval[0]], [interval[1] - value]], color=colour, fmt="o", capsize=4)


if __name__ == "__main__":
    main()
