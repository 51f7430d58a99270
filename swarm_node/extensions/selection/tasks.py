"""What samplers ask of a group: its task, and how often this node is right at it."""

from collections.abc import Sequence
from statistics import fmean

from swarm_node.rollouts.groups import ExternalGroup, ScoredGroup

Task = tuple[str, str]  # data set, config id


def task_of(group: ExternalGroup | ScoredGroup) -> Task:
    """The task of its question."""
    return group.question.dataset, group.question.config_id


def rates(groups: Sequence[ScoredGroup]) -> dict[Task, float]:
    """Mean reward of a completion by task."""
    found: dict[Task, list[float]] = {}
    for group in groups:
        found.setdefault(task_of(group), []).append(fmean(group.rewards))
    return {task: fmean(values) for task, values in found.items()}
