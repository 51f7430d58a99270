"""The loop of one cell: a swarm of nodes, round by round.

It knows the nodes as a population, which may live in this process or in several, and does not
import torch; the population does.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from protocol.messages import Round
from swarm_node.common.batched import paired
from swarm_node.rollouts.groups import RoundReport, combined, mean
from swarm_node.rollouts.interfaces import Participant
from swarm_node.settings.simulation import SimulationConfig
from swarm_node.simulation.arms import Cell, contributors
from swarm_node.simulation.attacks.hostile import VictimReport, hostile_nodes
from swarm_node.simulation.faults import Schedule
from swarm_node.telemetry.simulated import CellRound

Number = TypeVar("Number", int, float)


class Population(Protocol):
    """The nodes of a cell, by their numbers. The nodes of a call act in the order given."""

    def join(self, nodes: Sequence[int]) -> None:
        """Add nodes to the swarm."""
        ...

    def leave(self, nodes: Sequence[int]) -> None:
        """Remove nodes from the swarm."""
        ...

    def produce(self, nodes: Sequence[int], now: Round) -> None:
        """Let each generate its round, and publish it."""
        ...

    def consume(self, nodes: Sequence[int]) -> dict[int, RoundReport]:
        """Let each select groups, and train on them. Before, they have produced."""
        ...

    def evaluate(self, nodes: Sequence[int]) -> list[dict[str, float]]:
        """The accuracy of each, by task, on held-out questions of all tasks of the swarm."""
        ...

    def close(self) -> None:
        """End what was started for them."""
        ...


class PopulationHere(Population):
    """Nodes in this process. A subclass makes them, and evaluates."""

    def __init__(self) -> None:
        self._members: dict[int, Participant] = {}
        self._produced: dict[int, Any] = {}  # what each has not consumed yet

    def make(self, node: int) -> Participant:
        """A new member of the swarm, with this number."""
        raise NotImplementedError

    def join(self, nodes: Sequence[int]) -> None:
        for node in nodes:
            self._members[node] = self.make(node)

    def leave(self, nodes: Sequence[int]) -> None:
        for node in nodes:
            del self._members[node]

    def produce(self, nodes: Sequence[int], now: Round) -> None:
        for node in nodes:
            self._produced[node] = self._members[node].produce(now)

    def consume(self, nodes: Sequence[int]) -> dict[int, RoundReport]:
        return {node: self._members[node].consume(self._produced.pop(node)) for node in nodes}

    def close(self) -> None:
        pass


def run_cell(
    config: SimulationConfig,
    cell: Cell,
    population: Population,
    clock: Callable[[], float] = time.perf_counter,
    cpu: Callable[[], float] = time.process_time,
) -> Iterator[CellRound]:
    """Yields every round. First all nodes produce, then each consumes. So without delay a group
    arrives in the round in which it was generated, whatever the order of nodes. Hostile nodes and
    contributors only produce; reports are about the other nodes. `config` is the cell's own (see
    `cell_config`).
    """
    schedule = Schedule(config.faults, config.nodes, config.rounds)
    silent = hostile_nodes(config) | contributors(config)
    members: list[int] = []
    rejected: dict[int, Mapping[str, int]] = {}
    for number in range(config.rounds):
        present = schedule.present(number)
        population.leave([node for node in members if node not in present])
        population.join([node for node in present if node not in members])
        members = present
        active = schedule.active(number)
        started, burnt = clock(), cpu()  # after joining: loading models is not part of a round
        population.produce(active, Round(number))
        learning = [node for node in active if node not in silent]
        reports = population.consume(learning)
        rejected.update({node: report.rejected for node, report in reports.items()})
        done = summary(config, cell, number, reports, rejected=rejected, wall=clock() - started)
        done = replace(done, seconds={**done.seconds, "cpu": cpu() - burnt})
        every = config.evaluate_every
        if every and ((number + 1) % every == 0 or number + 1 == config.rounds):
            found = dict(paired(learning, population.evaluate(learning)))
            done = replace(done, accuracy=tuple(found.get(node) for node in range(config.nodes)))
        yield done


def summary(
    config: SimulationConfig,
    cell: Cell,
    number: int,
    reports: Mapping[int, RoundReport],
    *,
    rejected: Mapping[int, Mapping[str, int]],
    wall: float,
) -> CellRound:
    """The event of a round of the swarm. `reports`: of the nodes that took part; `rejected`: of all
    nodes so far.
    """
    several = [reports[node] for node in sorted(reports)]
    rewards = {
        node: config.round.questions * (report.reward or 0.0) for node, report in reports.items()
    }
    seconds = total([report.seconds for report in several])
    rejections = [rejected[node] for node in sorted(rejected)]
    victims = [report for report in several if isinstance(report, VictimReport)]
    return CellRound(
        arm=str(cell.arm),
        seed=cell.seed,
        round=number,
        nodes=len(several),
        reward=mean([rewards[node] for node in sorted(rewards)]),
        node_rewards=tuple(rewards.get(node) for node in range(config.nodes)),
        reward_by_task=_mean_by_key([report.reward_by_task for report in several]),
        skipped=total([report.skipped for report in several]),
        rejected=total(rejections),
        seconds={**seconds, "round": wall},
        attack=total([report.attack for report in victims]),
        metrics=combined(several),
    )


def total(mappings: Sequence[Mapping[str, Number]]) -> dict[str, Number]:
    """The sums by name, in the order of names."""
    sums: dict[str, Number] = {}
    for mapping in mappings:
        for name, value in mapping.items():
            sums[name] = sums[name] + value if name in sums else value
    return dict(sorted(sums.items()))


def _mean_by_key(mappings: Sequence[Mapping[str, float]]) -> dict[str, float]:
    means = dict[str, float]()
    for key in sorted({key for mapping in mappings for key in mapping}):
        means[key] = mean([mapping[key] for mapping in mappings if key in mapping])
    return means
