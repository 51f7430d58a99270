"""The real nodes of a cell: built from configuration, connected by the swarm in memory. Imports torch, by build."""

from random import Random

from swarm_node.build import build_environment, build_node, build_rules
from swarm_node.config import LearningConfig, SimulationConfig
from swarm_node.interfaces import Environment
from swarm_node.network.memory import MemorySwarm
from swarm_node.node import Node
from swarm_node.simulation.identities import identity
from swarm_node.simulation.mixture import node_config


class LivePopulation:
    """Nodes with the same tasks share one environment, and so one judge process: judging has no memory."""

    def __init__(self, config: SimulationConfig) -> None:
        self._config = config
        self._identities = [identity(config.seed, node) for node in range(config.nodes)]
        self._swarm = MemorySwarm(Random(f"{config.seed}/network"), loss=config.faults.loss, delay=config.faults.delay)
        self._environments: dict[tuple[str, ...], Environment] = {}

    def join(self, node: int) -> Node:
        own, who = node_config(self._config, node), self._identities[node]
        environment = self._environment(own)
        network = self._swarm.join(who, build_rules(own, environment, who.peer_id))
        return build_node(own, who.peer_id, environment, network)

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
