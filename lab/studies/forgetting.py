"""Does a specialist forget tasks that it never practises, and how much sharing prevents this?

    # continues where it stopped; a run takes about 8 minutes
    python -m lab.studies.forgetting --at-most 6
    python -m lab.studies.forgetting --report

Two nodes train SmolLM2-135M-Instruct for 150 rounds, each with one task of its own. A round trains
on two local groups and on none, one or two external groups. Both nodes are examined in both tasks.
Entropy is the policy's, at trained tokens.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from lab.benchmarks import command
from lab.studies import runner
from lab.studies.equal_price import SETTINGS
from lab.studies.runner import Run

KINDS = ("own", "the other's", "entropy")
ARMS = ("2/0", "2/1", "2/2")
TASKS = ("second/few", "last/few")
SEEDS = range(7000, 7002)
ROUNDS, EVERY, RATE = 150, 15, 5e-4


def run(arm: str, seed: int) -> Run:
    options = {
        **SETTINGS["smollm2-135m"].options,
        "evaluate_every": EVERY,
        "evaluate_questions": 24,
    }
    return runner.make(
        f"forgetting, {arm}", arm, seed, RATE, nodes=2, node_tasks=TASKS, rounds=ROUNDS, **options
    )


def curves(report: Mapping[str, Any]) -> dict[str, list[float]]:
    """Accuracy at each evaluation, and the entropy of every round, which is 0 where no group was
    informative.
    """
    (arm,) = report["arms"].values()
    held_out = arm["held_out"]
    kinds = {"own": held_out["local_tasks"][0], "the other's": held_out["other_tasks"][0]}
    return kinds | {"entropy": arm["metrics"]["entropy"][0]}


def draw(found: Mapping[str, list[dict[str, list[float]]]], path: Path) -> None:
    figure = Figure(figsize=(9.6, 3.2), dpi=110)
    for axes, kind in zip(figure.subplots(1, 3), KINDS, strict=True):
        for number, (arm, seeds) in enumerate(found.items()):
            for seed in seeds:
                step, label = ROUNDS / len(seed[kind]), arm if seed is seeds[0] else None
                points = [
                    (step * (k + 1), each)
                    for k, each in enumerate(seed[kind])
                    if each or kind != "entropy"
                ]
                axes.plot(*zip(*points, strict=True), f"C{number}.-", label=label)
        axes.set(
            title=f"{kind}{'' if kind == 'entropy' else ' task'}",
            xlabel="rounds",
            ylim=(-0.03, 1.03),
        )
        axes.spines[["top", "right"]].set_visible(False)
    figure.axes[0].set_ylabel("held-out accuracy")
    figure.axes[0].legend(frameon=False, fontsize=8)
    figure.tight_layout()
    figure.savefig(path)


def main() -> None:
    parser = command.parser("lab.studies.forgetting", __doc__)
    runner.add_options(parser)
    options = parser.parse_args()
    wanted = [run(arm, seed) for seed in SEEDS for arm in ARMS]
    if not runner.do(wanted, options):
        return
    found: dict[str, list[dict[str, list[float]]]] = {}
    for each in wanted:
        if (report := each.report(options.runs)) is not None:
            found.setdefault(each.name.removeprefix("forgetting, "), []).append(curves(report))
    lines = []
    for arm, seeds in found.items():
        for seed, kinds in zip(SEEDS, seeds, strict=False):
            ends = [f"{kinds[kind][0]:.2f} -> {kinds[kind][-1]:.2f}" for kind in KINDS[:2]]
            lines.append([arm, f"{seed}", *ends])
    command.show(("arm", "seed", *KINDS[:2]), lines)
    out = command.out(options)
    draw(found, out / "forgetting.png")
    (out / "forgetting.json").write_text(json.dumps(found) + "\n")
    command.finish(options, {"curves": found})


if __name__ == "__main__":
    main()
