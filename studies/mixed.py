"""A mixed swarm: three model sizes and two tokenizers. Is every node better off than alone?

    python -m studies.mixed        # docs/results/mixed.md

Nine nodes, three of each policy (rare, rare_small, rare_large), in one swarm with 4/4, beside the same alone (8/0).
The learning rate is the same for both arms.
"""

import argparse
import json
from pathlib import Path
from statistics import fmean

from rich.console import Console

from swarm_node.settings import SimulationConfig
from swarm_node.simulation.main import simulate
from swarm_node.simulation.statistics import ci95

MODELS = ("rare", "rare_small", "rare_large")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--runs", type=Path, default=Path("runs/mixed"))
    options = parser.parse_args()
    config = SimulationConfig(
        nodes=9,
        arms=("8/0", "4/4"),
        rounds=options.rounds,
        seeds=options.seeds,
        node_models=MODELS,
        out=options.runs,
        resume=(options.runs / "manifest.json").exists(),
    )
    report = json.loads(simulate(config, Console()).read_text())
    print(table(report))


def table(report: dict[str, object]) -> str:
    """Cumulative reward per node over seeds, alone and sharing, and the difference with its interval."""
    arms = report["arms"]
    assert isinstance(arms, dict)
    alone, shared = (arms[arm]["node_rewards"] for arm in ("8/0", "4/4"))  # per seed, per node
    lines = ["| node | policy | alone | sharing | gain | difference, 95 % |", "|---|---|---|---|---|---|"]
    for node in range(len(alone[0])):
        before, after = [seed[node] for seed in alone], [seed[node] for seed in shared]
        differences = [b - a for a, b in zip(before, after, strict=True)]
        half = ci95(differences)
        spread = "" if half is None else f" ± {half:.0f}"
        gain = f"{fmean(after) / fmean(before):.2f}x" if fmean(before) else "from 0"
        policy = MODELS[node % len(MODELS)]
        change = f"{fmean(differences):+.0f}{spread}"
        lines.append(f"| {node} | {policy} | {fmean(before):.0f} | {fmean(after):.0f} | {gain} | {change} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
