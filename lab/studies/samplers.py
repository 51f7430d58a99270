"""Which external groups are best to train on? Samplers and weights against uniform 4/4.

    python -m lab.studies.samplers --cost           # what it would cost
    python -m lab.studies.samplers                  # selection on 8 seeds, then 16 fresh ones for what was best
    python -m lab.studies.samplers --hostile        # the same with 25 % hostile nodes and the default defence
    python -m lab.studies.samplers --quick          # its shape

Selection claims nothing: it picks at most two that are above uniform. These are run again on seeds that nobody has
seen, and only there they are tested: exactly, in pairs, corrected by Holm's rule. All have one rate (`--rate`).
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

from lab.benchmarks import command
from lab.studies import objectives, runner
from lab.studies.runner import Run
from lab.studies.statistics import COMPARED, Comparison, chosen, compared_line, family
from swarm_node.extensions.simulation.settings import AttackConfig
from swarm_node.settings import DefenceConfig

BASE = "uniform"
FRESH = 500  # first seed of the confirmation
CONFIRMED = 2  # candidates at most
FIGURES = ("cumulative_reward", "final_reward")


@dataclass(frozen=True)
class Candidate:
    """An arm and what of its options differs from uniform 4/4."""

    arm: str = "4/4"
    round: Mapping[str, Any] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)


def sampler(name: str) -> Candidate:
    """By its registered name."""
    return Candidate(round={"sampler": name})


CANDIDATES: Mapping[str, Candidate] = {
    BASE: Candidate(),
    "uniform 2/6": Candidate("2/6"),
    "adaptive": Candidate(round={"sampler": "adaptive"}),
    "rare_first": Candidate(training={"scale_rewards": "rare_first"}),
    "shaped": Candidate(training={"objective": objectives.named("shaped")}),
}


def run(options: argparse.Namespace, name: str, seed: int) -> Run:
    made = CANDIDATES[name]
    size: dict[str, Any] = {"rounds": options.rounds}
    if options.quick:
        size = {"rounds": 3, "nodes": 4}
    if options.hostile:
        size |= {"attack": AttackConfig(kind="stealth", share=0.25), "defence": DefenceConfig()}
    model = {"name": options.starter}
    named = f"{name}, hostile" if options.hostile else name
    return runner.make(
        named, made.arm, seed, options.rate, model=model, round=made.round, training=made.training, **size
    )


def main() -> None:
    parser = command.parser("lab.studies.samplers", __doc__)
    runner.add_options(parser)
    parser.add_argument("--candidates", nargs="*", choices=CANDIDATES, default=list(CANDIDATES))
    parser.add_argument("--starter", default="rare")
    parser.add_argument(
        "--rate", type=float, default=3e-4, help="learning rate: that of 4/4 in docs/results/sharing.md"
    )
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--seeds", type=int, default=8, help="of the selection")
    parser.add_argument("--fresh", type=int, default=16, help="of the confirmation")
    parser.add_argument("--hostile", action="store_true", help="a quarter of the nodes, under the default defence")
    options = parser.parse_args()
    if options.quick:
        options.seeds, options.fresh = 3, 3
    names = list(dict.fromkeys([BASE, *options.candidates]))
    out, one = command.out(options), partial(run, options)
    selecting = [one(name, seed) for seed in range(options.seeds) for name in names]
    if not runner.do(selecting, options):
        print(f"then the confirmation: up to {CONFIRMED} candidates and {BASE}")
        runner.do([one(BASE, FRESH + seed) for seed in range(options.fresh * (1 + CONFIRMED))], options)
        return
    stem = "samplers_hostile" if options.hostile else "samplers"
    rows = runner.listed(selecting, options.runs, out / f"{stem}.csv")
    selected = compared(rows, names, range(options.seeds), options)
    show("selection: nothing is claimed from it", selected)
    best = picked(rows, names, options)
    confirmed: dict[str, list[Comparison]] = {}
    if best and all(each.report(options.runs) is not None for each in selecting):
        confirming = [one(name, FRESH + seed) for seed in range(options.fresh) for name in [BASE, *best]]
        runner.do(confirming, options)
        rows = runner.listed([*selecting, *confirming], options.runs, out / f"{stem}.csv")
        confirmed = compared(rows, [BASE, *best], range(FRESH, FRESH + options.fresh), options)
        show(f"confirmation of {', '.join(best)} on fresh seeds", confirmed)
    content = {"chosen": best, "selection": plain(selected), "confirmation": plain(confirmed)}
    (out / f"{stem}.json").write_text(json.dumps(content) + "\n")
    command.finish(options, content)


def named(name: str, options: argparse.Namespace) -> str:
    return f"{name}, hostile" if options.hostile else name


def picked(rows: Sequence[Mapping[str, Any]], names: Sequence[str], options: argparse.Namespace) -> list[str]:
    """What to confirm, by cumulative reward on the seeds of the selection that all have."""
    values = {name: runner.by_seed(rows, named(name, options), FIGURES[0], range(options.seeds)) for name in names}
    common = sorted(set.intersection(*(set(found) for found in values.values())))
    if not common:
        return []
    lists = {name: [found[seed] for seed in common] for name, found in values.items()}
    return chosen({name: found for name, found in lists.items() if name != BASE}, lists[BASE], CONFIRMED)


def compared(
    rows: Sequence[Mapping[str, Any]], names: Sequence[str], seeds: range, options: argparse.Namespace
) -> dict[str, list[Comparison]]:
    """By figure every candidate against uniform, on the seeds that all have."""
    found = {}
    for figure in FIGURES:
        values = {name: runner.by_seed(rows, named(name, options), figure, seeds) for name in names}
        common = sorted(set.intersection(*(set(of) for of in values.values())))
        if common:
            lists = {name: [of[seed] for seed in common] for name, of in values.items()}
            found[figure] = family({name: of for name, of in lists.items() if name != BASE}, lists[BASE])
    return found


def show(title: str, found: Mapping[str, Sequence[Comparison]]) -> None:
    print(f"\n### {title}")
    for figure, every in found.items():
        command.show([f"{figure}, against {BASE}", *COMPARED[1:]], [compared_line(each) for each in every])


def plain(found: Mapping[str, Sequence[Comparison]]) -> dict[str, list[dict[str, Any]]]:
    return {figure: [asdict(each) for each in every] for figure, every in found.items()}


if __name__ == "__main__":
    main()
