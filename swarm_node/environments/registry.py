"""Finds the environments of tasks. An environment that ships is found as any other: by the name
under which it is registered.
"""

import os
from functools import cache
from typing import Any, TypeVar

from protocol.messages import Question
from swarm_node.common import plugins
from swarm_node.common.errors import UserError
from swarm_node.environments.kinds import EnvironmentKind, HasEnvironments, find
from swarm_node.environments.plugged import PluggedKind
from swarm_node.environments.scored import Mixture
from swarm_node.settings import LearningConfig

C = TypeVar("C", bound=LearningConfig)
KIND = "environments"


@cache
def kinds(use: tuple[str, ...]) -> tuple[EnvironmentKind, ...]:
    """The kinds that a configuration names, then those that ship. Raises UserError if one cannot be
    loaded.
    """
    points = plugins.registered(KIND)
    ours = [name for name, point in points.items() if plugins.is_ours(point)]
    shipped = {name: plugins.load(KIND, name) for name in ours}
    named = [shipped.pop(name, None) or PluggedKind(_place(name)) for name in use]
    return (*named, *shipped.values())


def _place(name: str) -> str:
    """The place of a class from outside. An adapter gets the rest of ADAPTER:MODULE:NAME. UserError
    if unknown.
    """
    adapter, _, rest = name.partition(":")
    return (
        f"{plugins.target('adapters', adapter)}?{rest}"
        if ":" in rest
        else plugins.target(KIND, name)
    )


def with_environment(config: C, **changes: Any) -> C:
    """The configuration with other options of its environments."""
    return config.model_copy(update={"environment": config.environment.model_copy(update=changes)})


def tasks_of(config: HasEnvironments) -> tuple[str, ...]:
    """The tasks of a node: those given, else those of the user's data set, else all of the
    environments in use, else those of the starters.
    """
    settings = config.environment
    if settings.tasks:
        return settings.tasks
    all_kinds = kinds(settings.use)
    if brought := tuple(task for kind in all_kinds for task in kind.brought(config)):
        return brought
    # Those in use come first
    in_use = all_kinds[: len(settings.use)] or [kind for kind in all_kinds if kind.usual]
    return tuple(task for kind in in_use for task in kind.default_tasks)


def first_tasks(config: HasEnvironments) -> tuple[str, ...]:
    """The first tasks of a pre-trained model; none if a configuration names tasks or questions of
    the user's own. If it names no environment either, they come from the environments whose prompts
    the model continues.
    """
    use = config.environment.use
    all_kinds = kinds(use)
    if names_tasks(config):
        return ()
    in_use = all_kinds[: len(use)] or [kind for kind in all_kinds if kind.continued]
    return tuple(task for kind in in_use for task in kind.first_tasks)


def candidates(config: HasEnvironments, larger: bool) -> tuple[str, ...]:
    """The tasks from which a node chooses for a pre-trained model, which may be a `larger` one;
    none if a configuration names tasks or questions of the user's own. The tasks are of the
    environments in use, or of all if the configuration names no environment.
    """
    use = config.environment.use
    all_kinds = kinds(use)
    if names_tasks(config):
        return ()
    in_use = all_kinds[: len(use)] or all_kinds
    if larger:
        return tuple(task for kind in in_use for task in kind.larger_candidates)
    return tuple(task for kind in in_use for task in kind.candidates)


def names_tasks(config: HasEnvironments) -> bool:
    """Whether a configuration names tasks, or questions of the user's own."""
    if config.environment.tasks:
        return True
    return any(kind.brought(config) for kind in kinds(config.environment.use))


def by_kind(config: HasEnvironments) -> list[tuple[EnvironmentKind, list[str]]]:
    """The tasks of each environment that has one of them, in the order of the registry.
    UnknownTaskError.
    """
    all_kinds = kinds(config.environment.use)
    homes = [(task, find(task, all_kinds)) for task in tasks_of(config)]
    by_kind: list[tuple[EnvironmentKind, list[str]]] = []
    for kind in all_kinds:
        tasks = [task for task, home in homes if home is kind]
        if tasks:
            by_kind.append((kind, tasks))
    return by_kind


def leaving(config: HasEnvironments) -> str:
    """A sentence on the user's data that completions take off this machine, or that stays there as
    the network is off; empty if all questions are public.
    """
    by_kinds = [kind.leaves(config) for kind, _ in by_kind(config)]
    what = " and ".join(filter(None, by_kinds))
    if not what:
        return ""
    network = getattr(config, "network", None)  # a node has one, a simulation has none
    if network is not None and not network.enabled:
        return f"the network is off: {what} stay on this machine"
    return (
        f"completions quote {what}: they leave this machine, and the name of a swarm keeps nobody "
        "out"
    )


def build_environment(config: HasEnvironments, prepare: bool = False) -> Mixture:
    """All environments that the tasks of this node belong to, by the name that questions carry.
    Close it after use.

    `prepare` starts their processes, which otherwise start with the first question.
    """
    environments = {kind.name: kind.start(own, config) for kind, own in by_kind(config)}
    for environment in environments.values():
        environment.swarm = config.swarm
        if prepare:
            environment.prepare()
    # A single environment is wrapped too: a mixture turns an environment's exception into a counted
    # skip.
    mixture = Mixture(environments, config.environment.at_once)
    mixture.choose({})
    if told := leaving(config):
        mixture.notes.append((False, told))
    return mixture


def handed(config: HasEnvironments) -> dict[str, str]:
    """The environment variables that the user hands to those who score: a process that builds
    environments gets them beside those that hold no secrets.
    """
    names = [name for kind in kinds(config.environment.use) for name in kind.variables(config)]
    return {name: os.environ[name] for name in names if name in os.environ}


def right_answer(config: HasEnvironments, question: Question) -> str:
    """The answer, for simulated attackers: anybody can rebuild it. Raises UserError if the
    environment does not offer it.
    """
    for kind in kinds(config.environment.use):
        if kind.name == question.environment:
            return kind.answer(question)
    raise UserError(
        f"attackers do not know the answers of {question.environment}: name tasks of "
        "reasoning-gym with --attack"
    )
