"""Protection of strong nodes: only tasks at which others are better than this node. Ours; HACPO (arXiv 2603.02604)
corrects advantages by capability to the same end."""

from collections.abc import Sequence
from random import Random
from statistics import fmean

from swarm_node.rollouts.groups import ExternalGroup, ScoredGroup
from swarm_node.rollouts.sampler import Sampler

MOST = 64  # groups that are scored in a round, where scoring was not done ahead of it
Task = tuple[str, str]  # data set, config id


class ProtectiveSampler(Sampler):
    """Takes groups at random, of tasks at which the informative external groups of the round are right more often than
    this node's completions of it. A task that this node did not ask counts as never right.

    It compares groups that are scored, and so scores more than it takes. `run` scores ahead on a budget of time, and
    offers what is scored: there that costs nothing more. Both rates come of scores made here. A sender can raise the
    others' rate of a task, and so undo the protection; it gets no more than with `uniform`.
    """

    def __init__(self) -> None:
        self._rates: dict[Task, float] = {}

    def observe(self, local: Sequence[ScoredGroup]) -> None:
        """Own rates by task."""
        self._rates = rates(local)

    def order(self, candidates: Sequence[ExternalGroup], rng: Random) -> list[ExternalGroup]:
        return rng.sample(candidates, min(MOST, len(candidates)))

    def at_once(self, missing: int) -> int:
        """All of them: it compares them with each other."""
        return MOST

    def choose(self, scored: Sequence[ScoredGroup], count: int) -> list[ScoredGroup]:
        """See `Sampler`."""
        informative = [group for group in scored if group.informative]
        others = rates(informative)
        return [group for group in informative if others[task_of(group)] > self._rates.get(task_of(group), 0.0)][:count]


def task_of(group: ScoredGroup) -> Task:
    """The task of its question."""
    return group.question.dataset, group.question.config_id


def rates(groups: Sequence[ScoredGroup]) -> dict[Task, float]:
    """Mean reward of a completion by task."""
    found: dict[Task, list[float]] = {}
    for group in groups:
        found.setdefault(task_of(group), []).append(fmean(group.rewards))
    return {task: fmean(values) for task, values in found.items()}
