"""Who the nodes of a simulation are, and which model and tasks each has. Pure data."""

import hashlib

from protocol.identity import Identity
from swarm_node.common.errors import UserError
from swarm_node.environments.registry import tasks_of
from swarm_node.extensions.simulation.settings import SimulationConfig


def identity(seed: int, node: int) -> Identity:
    """The identity of (seed, index). So a swarm of the same seed gets the same questions in every arm and engine."""
    return Identity.from_seed_bytes(hashlib.sha256(f"{seed}/{node}".encode()).digest())


def node_config(config: SimulationConfig, node: int) -> SimulationConfig:
    """The configuration of one node. A list shorter than the swarm starts again from its first entry."""
    model, environment = config.model, config.environment
    if models := config.node_models:
        model = model.model_copy(update={"name": models[node % len(models)]})
    if config.node_tasks:
        tasks = split_tasks(config.node_tasks[node % len(config.node_tasks)])
        environment = environment.model_copy(update={"tasks": tasks})
    return config.model_copy(update={"model": model, "environment": environment})


def split_tasks(text: str) -> tuple[str, ...]:
    """The tasks of one node from a comma-separated list. UserError if it is empty."""
    tasks = tuple(part.strip() for part in text.split(",") if part.strip())
    if not tasks:
        raise UserError(f"--node-tasks {text!r} names no task; an entry is a list such as 'gcd/easy,lcm/easy'")
    return tasks


def local_tasks(config: SimulationConfig, node: int) -> tuple[str, ...]:
    """The tasks that this node asks."""
    return tasks_of(node_config(config, node))


def all_tasks(config: SimulationConfig) -> tuple[str, ...]:
    """The tasks that some node asks, in order."""
    return tuple(dict.fromkeys(task for node in range(config.nodes) for task in local_tasks(config, node)))


def contributors(config: SimulationConfig) -> frozenset[int]:
    """Nodes that generate and never train. UserError where nobody would."""
    roles = config.node_roles
    found = frozenset(node for node in range(config.nodes) if roles and roles[node % len(roles)] == "contributor")
    if len(found) == config.nodes:
        raise UserError("--node-roles leaves no learner: name one, as in --node-roles learner contributor")
    return found


def node_names(config: SimulationConfig) -> list[str]:
    """A short name for each node, from what distinguishes it."""
    names = []
    for node in range(config.nodes):
        own = node_config(config, node)
        parts = [str(node)]
        if config.node_models:
            parts.append(own.model.name)
        if config.node_tasks:
            parts.append(",".join(own.environment.tasks))
        if config.node_roles:
            parts.append(config.node_roles[node % len(config.node_roles)])
        names.append(" ".join(parts))
    return names
