"""Who is hostile, what a hostile node does, and what became of it in a victim."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from protocol.messages import PeerId, Round
from swarm_node.common.errors import UserError
from swarm_node.extensions.simulation.attacks.messages import Attack
from swarm_node.extensions.simulation.attacks.payloads import Payload
from swarm_node.network.in_memory import MemorySwarm
from swarm_node.node.round import Node
from swarm_node.rollouts.groups import Generated, Selection
from swarm_node.rollouts.reports import RoundReport
from swarm_node.settings import SimulationConfig


def hostile_nodes(config: SimulationConfig) -> frozenset[int]:
    """The named nodes, or the last ones, as many as the share gives. UserError if no honest node is left."""
    attack = config.attack
    if attack.kind == "none":
        return frozenset()
    count = round(attack.share * config.nodes)
    hostile = frozenset(attack.nodes or range(config.nodes - count, config.nodes))
    if strange := hostile - frozenset(range(config.nodes)):
        raise UserError(f"--attack.nodes: there is no node {min(strange)}; nodes are 0 to {config.nodes - 1}")
    if len(hostile) == config.nodes:
        raise UserError("an attack needs somebody to attack: not all nodes can be hostile")
    return hostile


@dataclass(frozen=True, slots=True)
class Hostile:
    """A node that only sends. It needs no model: it knows the right answers."""

    attack: Attack
    swarm: MemorySwarm

    def produce(self, now: Round) -> None:
        for data, sender in self.attack.messages(now):
            self.swarm.transmit(data, sender, now)

    def consume(self, produced: None) -> RoundReport:
        raise AssertionError("a hostile node trains nothing")


@dataclass(frozen=True, slots=True)
class VictimReport(RoundReport):
    """A victim's round with counts of the effect of the attack, see `Victim`."""

    attack: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Victim:
    """An honest node under observation. Counts local completions, "generated" and "marked", and external groups:
    "honest selected", "honest refused", "hostile selected" and "hostile refused"."""

    node: Node
    payload: Payload
    is_honest: Callable[[PeerId], bool]

    def produce(self, now: Round) -> Generated:
        return self.node.produce(now)

    def consume(self, produced: Generated) -> VictimReport:
        selection = self.node.rescue(self.node.select(produced))
        report = self.node.train(selection)
        values: dict[str, Any] = {entry.name: getattr(report, entry.name) for entry in fields(RoundReport)}
        return VictimReport(**values, attack=self._counts(selection))

    def _counts(self, selection: Selection) -> dict[str, int]:
        texts = [completion.text for group in selection.generated.groups for completion in group.group.completions]
        counts = Counter({"generated": len(texts), "marked": sum(map(self.payload.marks, texts))})
        refused = [entry.author for entry in selection.refused]
        for author in [*refused, *(group.author for group in selection.external)]:
            counts["honest selected" if self.is_honest(author) else "hostile selected"] += 1
        for author in refused:
            counts["honest refused" if self.is_honest(author) else "hostile refused"] += 1
        return dict(counts)
