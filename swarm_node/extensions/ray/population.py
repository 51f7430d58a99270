"""The nodes of one swarm as actors over the hosts of a Ray cluster; the swarm in memory stays in this process.

An actor holds some of the nodes. What they publish comes back as values, and what has arrived goes with the next call:
a round is the same as in one process, and all actors work at the same time. Imports torch, by population.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from protocol.identity import Identity
from protocol.messages import RolloutGroup, Round
from swarm_node.environments.registry import build_environment
from swarm_node.extensions.simulation.engines.population import LivePopulation, swarm_of
from swarm_node.extensions.simulation.held_out import Asked
from swarm_node.extensions.simulation.identities import identity
from swarm_node.extensions.simulation.node_options import contributors, node_config
from swarm_node.extensions.simulation.worker_messages import HostLost, node_environment
from swarm_node.network.in_memory import MemoryNetwork, MemorySwarm
from swarm_node.node.network import build_rules
from swarm_node.rollouts.groups import ExternalGroup
from swarm_node.rollouts.interfaces import Environment, Network, Participant
from swarm_node.rollouts.reports import RoundReport
from swarm_node.settings import LearningConfig, SimulationConfig


class Mailbox(Network):
    """The network of a node in an actor: the swarm is elsewhere."""

    def __init__(self) -> None:
        self.published: list[RolloutGroup] = []
        self.arrived: list[ExternalGroup] = []
        self.refused: Mapping[str, int] = {}

    def publish(self, groups: Sequence[RolloutGroup], now: Round) -> None:
        """See interfaces.Network."""
        self.published += groups

    def collect(self, now: Round) -> list[ExternalGroup]:
        """See interfaces.Network."""
        arrived, self.arrived = self.arrived, []
        return arrived

    def verdict(self, external: ExternalGroup, useful: bool, fault: str = "") -> None:
        """See interfaces.Network: the swarm in memory has no use for it."""

    def rejections(self) -> Mapping[str, int]:
        """See interfaces.Network."""
        return self.refused


class Members(LivePopulation):
    """Some nodes of a swarm, in an actor."""

    def __init__(self, config: SimulationConfig) -> None:
        super().__init__(config)
        self._boxes: dict[int, Mailbox] = {}
        self._nodes: dict[int, Participant] = {}
        self._produced: dict[int, Any] = {}

    def access(self, node: int, own: LearningConfig, who: Identity, environment: Environment) -> Network:
        """See LivePopulation."""
        return self._boxes[node]

    def enter(self, node: int) -> None:
        """The node with this number joins; its weights are new."""
        self._boxes[node] = Mailbox()
        self._nodes[node] = self.join(node)

    def produce(self, node: int, now: Round) -> list[RolloutGroup]:
        """What it published."""
        self._produced[node] = self._nodes[node].produce(now)
        published, self._boxes[node].published = self._boxes[node].published, []
        return published

    def consume(self, node: int, arrived: list[ExternalGroup], refused: Mapping[str, int]) -> RoundReport:
        """Its report, of the round that it produced last."""
        self._boxes[node].arrived, self._boxes[node].refused = arrived, refused
        return self._nodes[node].consume(self._produced.pop(node))


class RayPopulation:
    """Implements cell.Population. Raises HostLost where an actor has gone with its host."""

    def __init__(self, config: SimulationConfig, ray: Any) -> None:
        self._config, self._ray = config, ray
        self._swarm: MemorySwarm = swarm_of(config)
        self._environments: dict[tuple[str, ...], Environment] = {}
        self._silent = contributors(config)
        self._networks: dict[int, MemoryNetwork] = {}
        self._producing: dict[int, Any] = {}  # of the round in progress
        self._consuming: dict[int, Any] = {}
        self._now = Round(0)
        count = min(config.nodes, max(1, int(ray.cluster_resources().get("CPU", 1))))
        options = {"num_cpus": 1, "num_gpus": config.ray.gpus, "scheduling_strategy": "SPREAD"}
        made = ray.remote(Members).options(runtime_env={"env_vars": node_environment(config)}, **options)
        self._actors = [made.remote(config) for _ in range(count)]

    def join(self, node: int) -> Participant:
        own, who = node_config(self._config, node), identity(self._config.seed, node)
        tasks = own.environment.tasks
        if tasks not in self._environments:
            self._environments[tasks] = build_environment(own)
        rules = build_rules(own, self._environments[tasks]).admission(who.peer_id)
        self._networks[node] = self._swarm.join(who, rules)
        self._get([self._actor(node).enter.remote(node)])
        return RemoteNode(self, node)

    def leave(self, node: int) -> None:
        self._swarm.leave(identity(self._config.seed, node).peer_id)

    def evaluate(self, nodes: Sequence[int]) -> list[Asked]:
        asked = self._get([self._actor(node).evaluate.remote([node]) for node in nodes])
        return [one for part in asked for one in part]

    def close(self) -> None:
        for environment in self._environments.values():
            environment.close()
        for actor in self._actors:
            self._ray.kill(actor)

    def produce(self, node: int, now: Round) -> None:
        """Begins; the actor works while others begin."""
        self._now = now
        self._producing[node] = self._actor(node).produce.remote(node, now)

    def consume(self, node: int) -> RoundReport:
        """The first of a round sends what all have published, and lets all begin, each with what it gets."""
        if self._producing:
            self._exchange()
        report: RoundReport = self._get([self._consuming.pop(node)])[0]
        return report

    def _exchange(self) -> None:
        """In the order of nodes, as in one process."""
        published = self._get(list(self._producing.values()))
        for node, groups in zip(self._producing, published, strict=True):
            self._networks[node].publish(groups, self._now)
        for node in [node for node in self._producing if node not in self._silent]:
            network = self._networks[node]
            arrived = network.collect(self._now)
            self._consuming[node] = self._actor(node).consume.remote(node, arrived, dict(network.rejections()))
        self._producing.clear()

    def _actor(self, node: int) -> Any:
        return self._actors[node % len(self._actors)]

    def _get(self, references: list[Any]) -> list[Any]:
        try:
            found: list[Any] = self._ray.get(references)
        except self._ray.exceptions.RayActorError as error:
            raise HostLost(" ".join(str(error).split())[:300]) from error
        return found


class RemoteNode:
    """Implements interfaces.Participant: a node in an actor."""

    def __init__(self, population: RayPopulation, node: int) -> None:
        self._population, self._node = population, node

    def produce(self, now: Round) -> None:
        """See interfaces.Participant. What it produces stays in the actor."""
        self._population.produce(self._node, now)

    def consume(self, produced: None) -> RoundReport:
        """See interfaces.Participant."""
        return self._population.consume(self._node)
