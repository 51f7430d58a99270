"""Makes the network of a node. Needs no torch: the network process gets ready while torch loads."""

from collections.abc import Callable
from typing import Any

from protocol import limits
from protocol.identity import Identity
from swarm_node.network.client import RemoteNetwork
from swarm_node.network.process.messages import Rules
from swarm_node.rollouts.interfaces import Environment
from swarm_node.settings import LearningConfig, NodeConfig

CHARS_PER_TOKEN = 16  # generous, also for other tokenizers; bounds what a peer's group may cost to train on


def build_rules(config: LearningConfig, environment: Environment) -> Rules:
    """What this node admits from the network."""
    generation = config.generation
    known = environment.catalogue.environments.items()
    return Rules(
        swarm=config.swarm,
        environments={name: (version, {d: tuple(c) for d, c in tasks.items()}) for name, (version, tasks) in known},
        max_completions=min(limits.MAX_COMPLETIONS, 2 * generation.num_generations),
        max_completion_chars=min(limits.MAX_COMPLETION_CHARS, CHARS_PER_TOKEN * generation.max_completion_length),
    )


def build_network(
    config: NodeConfig, identity: Identity, environment: Environment, progress: Callable[[], dict[str, Any]]
) -> RemoteNetwork:
    """The network, not started yet. `progress`: facts about training, for `status`."""
    rules = build_rules(config, environment)
    want = config.round.external_groups
    return RemoteNetwork(identity, config.home.expanduser(), config.network, rules, want, progress)
