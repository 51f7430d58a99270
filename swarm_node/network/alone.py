"""The network of a node without peers: publishes nothing, collects nothing."""

from collections.abc import Mapping, Sequence

from protocol.messages import RolloutGroup, Round
from swarm_node.rollouts.groups import ExternalGroup
from swarm_node.rollouts.interfaces import Network


class Alone(Network):
    """Publishing and listening cost nothing and lead nowhere."""

    def publish(self, groups: Sequence[RolloutGroup], now: Round) -> None:
        pass

    def collect(self, now: Round) -> list[ExternalGroup]:
        return []

    def verdict(self, external: ExternalGroup, useful: bool, fault: str = "") -> None:
        pass

    def rejections(self) -> Mapping[str, int]:
        return {}
