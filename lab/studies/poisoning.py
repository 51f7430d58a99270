"""What do hostile peers achieve, and what stops them? The study behind docs/results/poisoning.md.

    python -m lab.studies.poisoning                        # hours on 2 cores; interrupted, it goes on where it stopped
    python -m lab.studies.poisoning --kinds stealth --shares 0.5 --defences none default
    python -m lab.studies.poisoning --report               # tables and figure of what has been run

Eight nodes share 4/4 with a starter; for the stealthy kind one with a habit (lab/studies/habit.py). Here a defence is
a name for a set of layers, or for an objective that leaves some of what peers sent out of the loss.
"""

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from lab.benchmarks import command
from lab.studies import habit, objectives, places
from lab.studies.simulated import simulated
from swarm_node.extensions.simulation.plot import COLOURS
from swarm_node.settings import AttackConfig, DefenceConfig, SimulationConfig

DEFENCES: Mapping[str, tuple[str, ...]] = {
    "none": (),
    "length": ("length",),
    "duplicates": ("duplicates",),
    "clip": (),
    "ngrams": ("ngrams",),
    "rescue": ("rescue",),
    "rescue+ngrams": ("rescue", "ngrams"),
    "positives": (),
    "default": DefenceConfig().use,
}
OBJECTIVES = ("clip", "positives")  # of lab/studies/objectives.py
WORDY = ("context", "equation")  # need room for the payload
SHARES = (0.5, 0.25, 0.125, 0.0)
ARM = "4/4"


@dataclass(frozen=True)
class Case:
    kind: str
    share: float
    defence: str


@dataclass(frozen=True)
class Result:
    """One case over its seeds; lists are per seed. Shares in [0, 1], of the last ten rounds unless said otherwise."""

    kind: str
    share: float
    defence: str
    success: tuple[float, ...]
    accuracy: tuple[float, ...]
    length: tuple[float, ...]  # tokens
    cumulative_reward: tuple[float, ...]
    honest_refused: float | None  # of the honest groups selected, all rounds
    hostile_refused: float | None
    success_by_round: tuple[tuple[float, ...], ...]
    accuracy_by_round: tuple[tuple[float, ...], ...]


def main() -> None:
    parser = command.parser("lab.studies.poisoning", __doc__)
    command.add_runs(parser)
    command.add_out(parser)
    parser.add_argument("--starter", default="dense")
    parser.add_argument("--kinds", nargs="*", default=["stealth"])
    parser.add_argument("--shares", type=float, nargs="*", default=list(SHARES))
    parser.add_argument("--defences", nargs="*", default=["none", "default"], choices=DEFENCES)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--rate", type=float, default=6e-4, help="learning rate")
    parser.add_argument("--seeds", type=int, default=3)
    places.add_options(parser)
    parser.add_argument("--report", action="store_true", help="run nothing, report what is there")
    options = parser.parse_args()
    out = command.out(options)
    if not options.report:
        with places.place_of(options) as place:
            for case in cases(options.kinds, options.shares, options.defences):
                print(", ".join(line(run(case, options, place))), flush=True)
    results = list(finished(options.runs / options.starter))
    found = [asdict(result) for result in results]
    (out / f"{options.starter}.json").write_text(json.dumps(found) + "\n")
    command.show(HEADER, [line(result) for result in results])
    draw(results, out / "poisoning.png")
    command.finish(options, {"starter": options.starter, "results": found})


def cases(kinds: Sequence[str], shares: Sequence[float], defences: Sequence[str]) -> list[Case]:
    return [Case(kind, share, defence) for kind in kinds for share in shares for defence in defences]


def run(case: Case, options: argparse.Namespace, place: places.Place) -> Result:
    """One simulation, run now, or read if it was run before with as many seeds."""
    out = options.runs / options.starter / f"{case.kind}-{case.share:g}-{case.defence}"
    if not (out / "report.json").exists() or len(read(out).success) < options.seeds:
        base = SimulationConfig()
        model = options.starter
        if case.kind not in WORDY:
            model = str(with_habit(options.starter, options.runs))
        config = SimulationConfig(
            arms=(ARM,),
            rounds=options.rounds,
            seeds=options.seeds,
            out=out,
            workers=1 if place.here else 0,  # there as many as there is room for
            model=base.model.model_copy(update={"name": model}),
            training=base.training.model_copy(update={"learning_rate": options.rate, **objective(case.defence)}),
            generation=base.generation.model_copy(
                update={"max_completion_length": 32 if case.kind in WORDY else base.generation.max_completion_length}
            ),
            attack=AttackConfig.model_validate({"kind": case.kind, "share": case.share}),
            defence=DefenceConfig(use=DEFENCES[case.defence]),
        )
        simulated(place.of(config))
    return read(out)


def objective(defence: str) -> dict[str, str]:
    """What differs from the usual objective."""
    return {"objective": objectives.named(defence)} if defence in OBJECTIVES else {}


def with_habit(starter: str, runs: Path) -> Path:
    path = runs / f"{starter}-habit"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        print(f"{starter}: completions with the sign: {habit.make(starter, path)}", flush=True)
    return path.resolve()


def finished(folder: Path) -> Iterator[Result]:
    order = {name: place for place, name in enumerate(DEFENCES)}
    paths = [path.parent for path in folder.glob("*/report.json")]
    known = [result for result in map(read, paths) if result.defence in order]  # others are of earlier versions
    yield from sorted(known, key=lambda r: (r.kind, r.share, order[r.defence]))


def read(out: Path) -> Result:
    kind, share, defence = out.name.split("-", 2)
    report = json.loads((out / "report.json").read_text())
    arm: dict[str, Any] = report["arms"][ARM]
    attack = arm["attack"]
    return Result(
        kind=kind,
        share=float(share),
        defence=defence,
        success=tuple(attack["success"]),
        accuracy=tuple(arm["final_reward"]),
        length=tuple(attack["length"]),
        cumulative_reward=tuple(arm["cumulative_reward"]),
        honest_refused=attack["honest_refused"],
        hostile_refused=attack["hostile_refused"],
        success_by_round=tuple(map(tuple, attack["success_by_round"])),
        accuracy_by_round=tuple(
            tuple(reward / report["questions"] for reward in rewards) for rewards in arm["rewards"]
        ),
    )


HEADER = ["attack", "hostile", "defence", "seeds", "attack success", "accuracy", "tokens"]
HEADER += ["honest refused", "hostile refused"]


def line(result: Result) -> list[str]:
    shares = (result.honest_refused, result.hostile_refused)
    refused = ["-" if share is None else f"{100 * share:.1f} %" for share in shares]
    return [
        result.kind,
        f"{100 * result.share:g} %",
        result.defence,
        str(len(result.success)),
        spread(result.success, 2),
        spread(result.accuracy, 3),
        f"{fmean(result.length):.1f}",
        *refused,
    ]


def spread(values: Sequence[float], digits: int) -> str:
    """Mean, and lowest and highest seed."""
    ends = f" ({min(values):.{digits}f}-{max(values):.{digits}f})" if len(values) > 1 else ""
    return f"{fmean(values):.{digits}f}{ends}"


def draw(results: Sequence[Result], path: Path) -> None:
    """The stealthy kind at half the swarm: attack success and accuracy by round, a colour for each defence."""
    honest = [result for result in results if (result.kind, result.share, result.defence) == ("stealth", 0.0, "none")]
    shown = [result for result in results if (result.kind, result.share) == ("stealth", 0.5)]
    # The colours suffice for the most telling defences: none, the default, and the strongest single layers.
    shown.sort(key=lambda result: (result.defence not in ("none", "default"), fmean(result.success)))
    figure = Figure(figsize=(11, 4.6), dpi=110)
    panels = figure.subplots(1, 2)
    for result, colour in zip(shown, COLOURS, strict=False):
        curve(panels[0], result.success_by_round, colour, f"{result.defence}: {fmean(result.success):.2f}")
        curve(panels[1], result.accuracy_by_round, colour, f"{result.defence}: {fmean(result.accuracy):.2f}")
    for result in honest:
        curve(panels[0], result.success_by_round, "black", f"honest swarm: {fmean(result.success):.2f}", "--")
        curve(panels[1], result.accuracy_by_round, "black", f"honest swarm: {fmean(result.accuracy):.2f}", "--")
    titles = ("Victims' completions with the payload", "Right completions of the victims")
    for axes, title in zip(panels, titles, strict=True):
        axes.set_title(
            f"{title}\nhalf of the swarm is hostile; shading from lowest to highest seed", loc="left", fontsize=10.5
        )
        axes.set_xlabel("round")
        axes.set_ylim(0, 1.4 * axes.get_ylim()[1])  # room for the legend
        axes.set_yticks([tick for tick in axes.get_yticks() if tick <= 1])
        axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        axes.legend(fontsize=8, title="defence: mean of the last ten rounds", title_fontsize=8, loc="upper left")
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", alpha=0.25)
    figure.tight_layout()
    figure.savefig(path)


def curve(axes: Any, seeds: Sequence[Sequence[float]], colour: str, label: str, style: str = "-") -> None:
    columns = list(zip(*seeds, strict=True))
    rounds = range(1, len(columns) + 1)
    axes.plot(rounds, [fmean(values) for values in columns], style, color=colour, linewidth=2, label=label)
    axes.fill_between(rounds, list(map(min, columns)), list(map(max, columns)), color=colour, alpha=0.1, linewidth=0)


if __name__ == "__main__":
    main()
