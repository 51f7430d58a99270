"""The real nodes of a cell: built from configuration, connected by the swarm in memory. Imports torch, by build."""

from functools import partial
from random import Random

from protocol.identity import Identity
from swarm_node.assembly.environments import build_environment, right_answer
from swarm_node.assembly.learner import build_node
from swarm_node.assembly.network import build_rules
from swarm_node.interfaces import Environment, Network, Participant
from swarm_node.network.in_memory import MemorySwarm
from swarm_node.settings import LearningConfig, SimulationConfig
from swarm_node.simulation.attacks.hostile import Hostile, Victim, hostile_nodes
from swarm_node.simulation.attacks.messages import Attack
from swarm_node.simulation.attacks.payloads import payload_of
from swarm_node.simulation.identities import identity
from swarm_node.simulation.lag import LaggedNode, bounded
from swarm_node.simulation.node_options import node_config


def swarm_of(config: SimulationConfig) -> MemorySwarm:
    """The swarm in memory of a cell."""
    return MemorySwarm(Random(f"{config.seed}/network"), loss=config.faults.loss, delay=config.faults.delay)


class LivePopulation:
    """Real nodes in one process. Nodes with the same tasks share one environment, and so one scoring process."""

    def __init__(self, config: SimulationConfig) -> None:
        self._config = config
        self._identities = [identity(config.seed, node) for node in range(config.nodes)]
        self._swarm = swarm_of(config)
        self._environments: dict[tuple[str, ...], Environment] = {}
        self._hostile = hostile_nodes(config)
        self._honest_ids = {who.peer_id for node, who in enumerate(self._identities) if node not in self._hostile}

    def join(self, node: int) -> Participant:
        own, who = node_config(self._config, node), self._identities[node]
        environment = self._environment(own)
        if node in self._hostile:
            return Hostile(Attack(own, who, environment, partial(right_answer, own.environment)), self._swarm)
        honest = build_node(own, who.peer_id, environment, self.access(node, own, who, environment))
        if own.attack.kind == "none":
            how = own.asynchronous
            return LaggedNode(honest, bounded(how.max_staleness)) if how.enabled else honest
        payload = payload_of(own.attack.kind, own.attack.payload)
        return Victim(honest, payload, self._honest_ids.__contains__)

    def access(self, node: int, own: LearningConfig, who: Identity, environment: Environment) -> Network:
        """The network of a node that joins."""
        return self._swarm.join(who, build_rules(own, environment).admission(who.peer_id))

    def leave(self, node: int) -> None:
        self._swarm.leave(self._identities[node].peer_id)

    def close(self) -> None:
        for environment in self._environments.values():
            environment.close()

    def _environment(self, own: LearningConfig) -> Environment:
        tasks = own.environment.tasks
        if tasks not in self._environments:
            self._environments[tasks] = build_environment(own)
        return self._environments[tasks]
