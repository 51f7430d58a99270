"""Protection of strong nodes: only tasks at which others are better than this node. Ours; HACPO (arXiv 2603.02604)
corrects advantages by capability to the same end."""

from collections.abc import Sequence
from random import Random

from swarm_node.extensions.selection.ranking import RankingSampler
from swarm_node.extensions.selection.tasks import Task, rates, task_of
from swarm_node.rollouts.groups import ScoredGroup


class ProtectiveSampler(RankingSampler):
    """Takes groups at random, of tasks at which the informative external groups of the round are right more often than
    this node's completions of it. A task that this node did not ask counts as never right.

    Both rates come of scores made here. A sender can raise the others' rate of a task, and so undo the protection; it
    gets no more than with `uniform`.
    """

    def __init__(self) -> None:
        self._rates: dict[Task, float] = {}

    def observe(self, local: Sequence[ScoredGroup]) -> None:
        """Own rates by task."""
        self._rates = rates(local)

    def rank(self, groups: Sequence[ScoredGroup], count: int, rng: Random) -> list[ScoredGroup]:
        """The first of those, in the random order in which they come."""
        others = rates(groups)
        return [group for group in groups if others[task_of(group)] > self._rates.get(task_of(group), 0.0)][:count]
