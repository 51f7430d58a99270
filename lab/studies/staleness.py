"""The effect of staleness, by objective and in a swarm.

    python -m lab.studies.staleness --studies alone swarm   # interrupted, it goes on where it stopped
    python -m lab.studies.staleness --report                # tables and figure of what there is

alone    one node, max_staleness 0 to 8 and unbounded, naive (clipped) and decoupled objective
swarm    eight nodes that share 4/4, synchronous and with text one update old

Staleness is simulated, so that runs are deterministic: all text is as old as allowed. Unbounded is a generator twice as
fast as the trainer without admission: round r is generated with the weights after r / 2 updates.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from matplotlib.figure import Figure

from lab.benchmarks import command
from swarm_node.extensions.simulation.arms import Arm, Cell, cell_config
from swarm_node.extensions.simulation.cell import run_cell
from swarm_node.extensions.simulation.engines.population import LivePopulation
from swarm_node.extensions.simulation.participation import LaggedNode
from swarm_node.extensions.simulation.plot import COLOURS
from swarm_node.extensions.simulation.report import ci95
from swarm_node.extensions.simulation.settings import SimulationConfig
from swarm_node.node.round import Node
from swarm_node.rollouts.interfaces import Participant
from swarm_node.settings import AsynchronousConfig, ModelConfig, RoundConfig, TrainingConfig
from swarm_node.telemetry.learning import moving_average

STALENESS = (0, 1, 2, 4, 8, None)  # None: unbounded
LAST = 20  # rounds whose mean is the final reward


class Unbounded(LivePopulation):
    def join(self, node: int) -> Participant:
        member = super().join(node)
        assert isinstance(member, Node)
        return LaggedNode(member, lambda updates: 2 * updates + 1)


@dataclass(frozen=True)
class Variant:
    study: str
    name: str
    arm: Arm
    nodes: int
    rounds: int
    training: Mapping[str, Any]
    staleness: int | None = 0
    population: Callable[[SimulationConfig], LivePopulation] = LivePopulation


def variants(study: str, rate: float) -> Iterator[Variant]:
    base = {"learning_rate": rate}
    if study == "alone":
        for staleness in STALENESS:
            words = "unbounded" if staleness is None else str(staleness)
            kind = Unbounded if staleness is None else LivePopulation
            for objective in ("clipped", "decoupled"):
                training = {**base, "objective": objective}
                yield Variant(study, f"{words} {objective}", Arm(8, 0), 1, 100, training, staleness, kind)
    else:
        for staleness, objective in ((0, "clipped"), (1, "clipped"), (1, "decoupled")):
            training = {**base, "objective": objective}
            yield Variant(study, f"{staleness} {objective}", Arm(4, 4), 8, 60, training, staleness)


def configuration(variant: Variant, starter: str, seed: int) -> SimulationConfig:
    how = AsynchronousConfig(enabled=bool(variant.staleness), max_staleness=variant.staleness or 0)
    whole = SimulationConfig(
        model=ModelConfig(name=starter, device="cpu"),
        round=RoundConfig(),
        training=TrainingConfig(**variant.training),
        asynchronous=how,
        nodes=variant.nodes,
        rounds=variant.rounds,
        seed=seed,
        threads=1,
    )
    return cell_config(whole, Cell(variant.arm, seed))


def run(variant: Variant, starter: str, seed: int) -> dict[str, Any]:
    """One cell, in this process."""
    config = configuration(variant, starter, seed)
    torch.set_num_threads(1)
    population = variant.population(config)
    try:
        rounds = list(run_cell(config, Cell(variant.arm, seed), population))
    finally:
        population.close()
    print(f"{variant.study} {variant.name} seed {seed}", flush=True)
    return {
        "study": variant.study,
        "name": variant.name,
        "seed": seed,
        "rewards": [done.reward for done in rounds],
        "clip_fraction": fmean(done.metrics["clip_fraction"] for done in rounds),
    }


def read(folder: Path) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """Cells by study and variant."""
    found: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for file in sorted(folder.glob("*.json")):
        cell = json.loads(file.read_text())
        found.setdefault(cell["study"], {}).setdefault(cell["name"], []).append(cell)
    return found


def interval(values: Sequence[float], digits: int) -> str:
    half = ci95(values) if len(values) > 1 else None
    return f"{fmean(values):.{digits}f}" + ("" if half is None else f" ± {half:.{digits}f}")


def show(found: Mapping[str, Mapping[str, Sequence[Mapping[str, Any]]]], rate: float) -> None:
    for study, cells in found.items():
        lines = []
        for variant in variants(study, rate):
            runs = cells.get(variant.name, [])
            if not runs:
                continue
            total = interval([sum(r["rewards"]) for r in runs], 0)
            last = interval([fmean(r["rewards"][-LAST:]) for r in runs], 2)
            clipped = fmean(r["clip_fraction"] for r in runs)
            lines.append([variant.name, f"{len(runs)}", total, last, f"{clipped:.1%}"])
        command.show([study, "seeds", "cumulative reward", f"last {LAST} rounds, of 9", "clipped tokens"], lines)


def draw(cells: Mapping[str, Sequence[Mapping[str, Any]]], file: Path) -> None:
    figure = Figure(figsize=(10, 3.6), layout="constrained")
    axes = figure.subplots(1, 2, sharey=True)
    for axis, objective in zip(axes, ("clipped", "decoupled"), strict=True):
        for colour, staleness in zip(COLOURS, STALENESS, strict=False):
            words = "unbounded" if staleness is None else str(staleness)
            runs = cells.get(f"{words} {objective}", [])
            if runs:
                mean = [fmean(values) for values in zip(*(r["rewards"] for r in runs), strict=True)]
                axis.plot(moving_average(mean, 10), color=colour, label=words)
        axis.set(title=f"{objective}", xlabel="round")
    axes[0].set_ylabel("reward, of 9 (mean of 10 rounds)")
    axes[1].legend(title="max_staleness", frameon=False, loc="lower right", ncols=2)
    figure.savefig(file, dpi=110)


def main() -> None:
    parser = command.parser("lab.studies.staleness", __doc__)
    command.add_runs(parser)
    command.add_out(parser)
    parser.add_argument("--studies", nargs="*", choices=["alone", "swarm"], default=[])
    parser.add_argument("--starter", default="rare")
    parser.add_argument("--rate", type=float, default=3e-4)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--report", action="store_true", help="tables and figure of the finished cells")
    options = parser.parse_args()
    for study in options.studies:
        for seed in range(options.seeds):  # seed by seed, so that what is done so far can be compared
            for variant in variants(study, options.rate):
                file = options.runs / f"{study}-{variant.name.replace(' ', '-')}-{seed}.json"
                command.kept(file, partial(run, variant, options.starter, seed))
    found = read(options.runs)
    show(found, options.rate)
    if options.report and "alone" in found:
        draw(found["alone"], command.out(options) / "staleness.png")
    command.finish(options, {"studies": found})


if __name__ == "__main__":
    main()
