"""Does sharing cost a node its own tasks? Ways to train on external groups, against training alone and uniform 4/4.

    python -m lab.studies.samplers --cost           # what it would cost
    python -m lab.studies.samplers                  # selection on 8 seeds, then 16 fresh ones for what was best
    python -m lab.studies.samplers --hostile        # the same with 25 % hostile nodes and the default defence
    python -m lab.studies.samplers --quick          # its shape

The swarm is that of `lab.studies.equal_price rare`: specialists, examined in all tasks. Selection claims nothing: it
picks at most two. These are run again on seeds that nobody has seen, and only there they are tested: exactly, in
pairs, corrected by Holm's rule.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from lab.benchmarks import command
from lab.studies import candidates, objectives, runner
from lab.studies.equal_price import SETTINGS
from lab.studies.runner import Run
from lab.studies.statistics import Comparison, compared_line, family
from swarm_node.extensions.simulation.settings import AttackConfig
from swarm_node.settings import DefenceConfig

ALONE, BASE = "alone", "uniform"
SEEDS, FRESH = range(5000, 5008), range(5100, 5116)  # fixed before the first run
CONFIRMED = 2  # candidates at most
FIGURES = {"final_local": "own tasks", "final_other": "others' tasks", "final": "all tasks"}
OWN, OTHERS = 0.98, 1.7  # wanted, as ratios to training alone
FILE = Path(candidates.__file__).resolve()


@dataclass(frozen=True)
class Candidate:
    """An arm and what of its options differs from uniform 4/4."""

    arm: str = "4/4"
    options: Mapping[str, Any] = field(default_factory=dict)


def sampler(name: str) -> Candidate:
    return Candidate(options={"round": {"sampler": name}})


def objective(name: str) -> Candidate:
    return Candidate(options={"training": {"objective": f"{FILE}:{name}"}})


CANDIDATES: Mapping[str, Candidate] = {
    ALONE: Candidate("8/0"),
    BASE: Candidate(),
    "8/4": Candidate("8/4"),
    "adaptive": sampler("adaptive"),
    "needed": sampler(f"{FILE}:Needed"),
    "guarded": sampler(f"{FILE}:Guarded"),
    "without negatives": objective("without_negatives"),
    "likely tokens": objective("likely_tokens"),
    "shaped": Candidate(options={"training": {"objective": objectives.named("shaped")}}),
    # Own answers to peers' questions, and their right ones beside where it fails (Mutual RL, arXiv 2605.07244)
    "success-gated": Candidate(options={"defence": {"layers": ("rescue",)}}),
}


def run(options: argparse.Namespace, name: str, seed: int) -> Run:
    made, setting = CANDIDATES[name], SETTINGS["rare"]
    settings = {"nodes": setting.nodes, "node_tasks": setting.tasks, "rounds": setting.rounds, **setting.options}
    if options.quick:
        settings |= {"rounds": 2, "evaluate_every": 1, "evaluate_questions": 1, "evaluate_samples": 1}
    settings |= made.options
    if options.hostile:
        settings |= {"attack": AttackConfig(kind="stealth", share=0.25), "defence": DefenceConfig()}
    rate = options.lone_rate if name == ALONE else options.rate
    return runner.make(told(name, options), made.arm, seed, rate, **settings)


def told(name: str, options: argparse.Namespace) -> str:
    return f"{name}, hostile" if options.hostile else name


def main() -> None:
    parser = command.parser("lab.studies.samplers", __doc__)
    runner.add_options(parser)
    parser.add_argument("--candidates", nargs="*", choices=CANDIDATES, default=list(CANDIDATES))
    words = "learning rate of arms that share, and alone: those that equal_price found"
    parser.add_argument("--rate", type=float, default=3e-4, help=words)
    parser.add_argument("--lone-rate", type=float, default=3e-4)
    parser.add_argument("--hostile", action="store_true", help="a quarter of the nodes, under the default defence")
    options = parser.parse_args()
    names = list(dict.fromkeys([ALONE, BASE, *options.candidates]))
    out, one = command.out(options), partial(run, options)
    selecting = [one(name, seed) for seed in SEEDS for name in names]
    if not runner.do(selecting, options):
        return
    stem = "samplers_hostile" if options.hostile else "samplers"
    rows = runner.listed(selecting, options.runs, out / f"{stem}.csv")
    selected = compared(rows, names, SEEDS, options)
    show("selection: nothing is claimed from it", selected)
    best = picked(selected)
    confirmed: dict[str, list[Comparison]] = {}
    if best and all(each.report(options.runs) is not None for each in selecting):
        confirming = [one(name, seed) for seed in FRESH for name in [ALONE, BASE, *best]]
        runner.do(confirming, options)
        rows = runner.listed([*selecting, *confirming], options.runs, out / f"{stem}.csv")
        confirmed = compared(rows, [ALONE, BASE, *best], FRESH, options)
        show(f"confirmation of {', '.join(best)} on fresh seeds", confirmed)
    content = {"chosen": best, "selection": plain(selected), "confirmation": plain(confirmed)}
    (out / f"{stem}.json").write_text(json.dumps(content) + "\n")
    command.finish(options, content)


def picked(selected: Mapping[str, Sequence[Comparison]]) -> list[str]:
    """What to confirm: what comes nearest to both of OWN and OTHERS, by the one it is further from."""
    ratios: dict[str, list[float]] = {}
    for figure, wanted in (("final_local", OWN), ("final_other", OTHERS)):
        for each in selected.get(figure, ()):
            ratios.setdefault(each.name, []).append((each.ratio or 0.0) / wanted)
    return sorted((name for name in ratios if name != BASE), key=lambda name: -min(ratios[name]))[:CONFIRMED]


def compared(
    rows: Sequence[Mapping[str, Any]], names: Sequence[str], seeds: range, options: argparse.Namespace
) -> dict[str, list[Comparison]]:
    """By figure every candidate against training alone, on the seeds that all have."""
    found = {}
    for figure in FIGURES:
        values = {name: runner.by_seed(rows, told(name, options), figure, seeds) for name in names}
        common = sorted(set.intersection(*(set(of) for of in values.values())))
        if common:
            lists = {name: [of[seed] for seed in common] for name, of in values.items()}
            found[figure] = family({name: of for name, of in lists.items() if name != ALONE}, lists[ALONE])
    return found


def show(title: str, found: Mapping[str, Sequence[Comparison]]) -> None:
    print(f"\n### {title}")
    for figure, every in found.items():
        heads = (f"{FIGURES[figure]}, against alone", "seeds", "alone", "mean", "ratio", "95 %", "p (Holm)")
        command.show(heads, [compared_line(each) for each in every])


def plain(found: Mapping[str, Sequence[Comparison]]) -> dict[str, list[dict[str, Any]]]:
    return {figure: [asdict(each) for each in every] for figure, every in found.items()}


if __name__ == "__main__":
    main()
