"""A mixed swarm: three model sizes and two tokenizers. Is every node better off than alone?

    python -m lab.studies.mixed        # docs/results/mixed.md

Nine nodes, three of each policy (rare, rare_small, rare_large), in one swarm with 4/4, compared with the same nodes
alone (8/0). The learning rate is the same for both arms.
"""

from collections.abc import Sequence
from statistics import fmean

from lab.benchmarks import command
from lab.studies import places
from lab.studies.simulated import simulated
from swarm_node.extensions.simulation.statistics import ci95
from swarm_node.settings import SimulationConfig

ARMS = ("8/0", "4/4")
MODELS = ("rare", "rare_small", "rare_large")


def main() -> None:
    parser = command.parser("lab.studies.mixed", __doc__)
    command.add_runs(parser)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=3)
    places.add_options(parser)
    options = parser.parse_args()
    config = SimulationConfig(
        nodes=9,
        arms=ARMS,
        rounds=options.rounds,
        seeds=options.seeds,
        node_models=MODELS,
        out=options.runs,
    )
    with places.place_of(options) as place:
        found = simulated(place.of(config), quiet=False)
    alone, shared = (found["arms"][arm]["node_rewards"] for arm in ARMS)  # per seed, per node
    show(alone, shared)
    ratio = fmean(map(fmean, shared)) / fmean(map(fmean, alone))
    command.finish(options, {"ratio": ratio, "alone": alone, "sharing": shared, "models": MODELS})


def show(alone: Sequence[Sequence[float]], shared: Sequence[Sequence[float]]) -> None:
    """Cumulative reward per node over seeds, alone and sharing, and the difference with its interval."""
    lines = []
    for node in range(len(alone[0])):
        before, after = [seed[node] for seed in alone], [seed[node] for seed in shared]
        differences = [b - a for a, b in zip(before, after, strict=True)]
        half = ci95(differences)
        spread = "" if half is None else f" ± {half:.0f}"
        gain = f"{fmean(after) / fmean(before):.2f}x" if fmean(before) else "from 0"
        policy = MODELS[node % len(MODELS)]
        change = f"{fmean(differences):+.0f}{spread}"
        lines.append([f"{node}", policy, f"{fmean(before):.0f}", f"{fmean(after):.0f}", gain, change])
    command.show(["node", "policy", "alone", "sharing", "gain", "difference, 95 %"], lines)


if __name__ == "__main__":
    main()
