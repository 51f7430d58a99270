"""What does a strong node lose among weak ones, and a weak one gain among strong ones? And how many nodes does it take?

    python -m lab.studies.strength --cost           # what it would cost
    python -m lab.studies.strength                  # goes on where it stopped
    python -m lab.studies.strength --quick          # its shape

One `dense` node among `rarest` ones, and one `rarest` among `dense` ones, for swarms of several sizes, alone (8/0),
shared (4/4) and with the sampler `adaptive`. What is reported is the node that differs: node 0.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from lab.benchmarks import command
from lab.studies import runner
from lab.studies.runner import Run
from lab.studies.statistics import COMPARED, Comparison, compare, compared_line, holm

CASES: Mapping[str, tuple[str, str]] = {
    "strong among weak": ("dense", "rarest"),
    "weak among strong": ("rarest", "dense"),
}
WAYS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "alone": ("8/0", {}),
    "shared": ("4/4", {}),
    "adaptive": ("4/4", {"sampler": "adaptive"}),
}
SIZES = (2, 3, 8, 16)


def run(options: argparse.Namespace, case: str, nodes: int, way: str, seed: int) -> Run:
    (one, others), (arm, changes) = CASES[case], WAYS[way]
    rounds = 3 if options.quick else options.rounds
    models = (one, *[others] * (nodes - 1))
    name = f"{case}, {nodes} nodes, {way}"
    return runner.make(name, arm, seed, options.rate, nodes=nodes, node_models=models, rounds=rounds, round=changes)


def main() -> None:
    parser = command.parser("lab.studies.strength", __doc__)
    runner.add_options(parser)
    parser.add_argument("--sizes", type=int, nargs="*", default=list(SIZES))
    parser.add_argument("--rate", type=float, default=6e-4)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--seeds", type=int, default=8)
    options = parser.parse_args()
    if options.quick:
        options.sizes, options.seeds = [2], 2
    out, one = command.out(options), partial(run, options)
    runs = [
        one(case, nodes, way, seed)
        for seed in range(options.seeds)
        for nodes in options.sizes
        for case in CASES
        for way in WAYS
    ]
    if not runner.do(runs, options):
        return
    runner.listed(runs, options.runs, out / "strength.csv")
    found = compared(runs, options)
    command.show(["reward of the node that differs", *COMPARED[1:]], [compared_line(each) for each in found])
    content = {"comparisons": [asdict(each) for each in found]}
    (out / "strength.json").write_text(json.dumps(content) + "\n")
    command.finish(options, content)


def compared(runs: Sequence[Run], options: argparse.Namespace) -> list[Comparison]:
    """Node 0 in every other way, against the same node alone; one family."""
    earned: dict[str, dict[int, float]] = {}
    for each in runs:
        report = each.report(options.runs)
        if report is not None:
            (arm,) = report["arms"].values()
            earned.setdefault(each.name, {})[each.seed] = arm["node_rewards"][0][0]
    found = []
    for case in CASES:
        for nodes in options.sizes:
            start = f"{case}, {nodes} nodes"
            for way in list(WAYS)[1:]:
                pair = runner.paired(earned.get(f"{start}, {way}", {}), earned.get(f"{start}, alone", {}))
                found += [compare(f"{start}, {way}", *pair)] if pair[0] else []
    corrected = holm([each.p for each in found])
    return [Comparison(**{**asdict(each), "p_holm": p}) for each, p in zip(found, corrected, strict=True)]


if __name__ == "__main__":
    main()
