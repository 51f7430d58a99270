"""The swarm a node takes part in. Needs no torch: it gets ready in a process of its own while torch loads."""

from collections.abc import Callable
from typing import Any

from protocol import limits
from protocol.identity import Identity
from swarm_node.interfaces import Environment
from swarm_node.network.process.messages import Rules
from swarm_node.network.process.remote import RemoteNetwork
from swarm_node.settings import LearningConfig, NodeConfig

CHARS_PER_TOKEN = 16  # generous, also for other tokenizers; bounds what a peer's group may cost to train on


def build_rules(config: LearningConfig, environment: Environment) -> Rules:
    """What this node lets in from the network."""
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
    """The swarm, not entered yet. `progress`: what training says of itself."""
    rules = build_rules(config, environment)
    want = config.network.pull or config.round.external_groups
    return RemoteNetwork(identity, config.home.expanduser(), config.network, rules, want, progress)
