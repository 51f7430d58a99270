"""The time that the default defence takes: rounds of a starter swarm with it and without.

python -m lab.benchmarks.defence --json
"""

from collections.abc import Mapping
from statistics import median

from lab.benchmarks import command, common
from protocol.messages import Round
from swarm_node.extensions.simulation.engines.population import LivePopulation
from swarm_node.settings import DefenceConfig, RoundConfig, SimulationConfig

NODES = 4
SIDES: Mapping[str, tuple[str, ...]] = {"without": (), "with the default defence": DefenceConfig().use}


def main() -> None:
    options = common.parser("lab.benchmarks.defence", __doc__).parse_args()
    common.settle()
    rounds = 2 if options.quick else 12
    repetitions = options.repetitions or (1 if options.quick else 3)
    seconds: dict[str, list[float]] = {name: [] for name in SIDES}
    for repetition in range(repetitions):
        for name, use in SIDES.items():
            seconds[name].append(per_round(use, rounds))
        common.progress("CPU s a round", repetition, repetitions, {name: taken[-1] for name, taken in seconds.items()})
    medians = {name: median(taken) for name, taken in seconds.items()}
    without, with_it = medians.values()
    command.show(["", "CPU s a round"], [[name, f"{value:.3f}"] for name, value in medians.items()])
    result = {"ratio": with_it / without, "sides": seconds, "nodes": NODES, "rounds": rounds}
    command.finish(options, {**result, **command.versions("torch", "transformers")})


def per_round(use: tuple[str, ...], rounds: int) -> float:
    """CPU seconds of one node's round, scoring in its own process not counted."""
    config = SimulationConfig(
        nodes=NODES,
        threads=1,
        round=RoundConfig(local_groups=4, external_groups=4),
        defence=DefenceConfig(use=use),
    )
    population = LivePopulation(config)
    try:
        nodes = [population.join(number) for number in range(NODES)]

        def all_rounds() -> None:
            for now in map(Round, range(rounds)):
                produced = [node.produce(now) for node in nodes]
                for node, generated in zip(nodes, produced, strict=True):
                    node.consume(generated)

        return common.cpu_seconds(all_rounds) / (rounds * NODES)
    finally:
        population.close()


if __name__ == "__main__":
    main()
