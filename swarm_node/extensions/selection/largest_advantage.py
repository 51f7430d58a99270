"""Largest advantage first, as in advantage replay (arXiv 2606.04560), and at most two groups of a task."""

from collections import Counter
from collections.abc import Sequence
from random import Random
from statistics import fmean, stdev

from swarm_node.extensions.selection.ranking import RankingSampler
from swarm_node.extensions.selection.tasks import Task, task_of
from swarm_node.rollouts.groups import ScoredGroup

PER_TASK = 2  # groups of one task


class LargestAdvantageSampler(RankingSampler):
    """Prefers groups with one completion far from the others: the rarest success or failure.

    A sender can steer it: who publishes one right completion among wrong ones comes first.
    """

    def rank(self, groups: Sequence[ScoredGroup], count: int, rng: Random) -> list[ScoredGroup]:
        """The first by largest absolute advantage."""
        chosen: list[ScoredGroup] = []
        taken: Counter[Task] = Counter()
        for group in sorted(groups, key=largest, reverse=True):
            if len(chosen) < count and taken[task_of(group)] < PER_TASK:
                chosen.append(group)
                taken[task_of(group)] += 1
        return chosen


def largest(group: ScoredGroup) -> float:
    """Its largest absolute advantage: of the reward farthest from the mean, in standard deviations."""
    mean = fmean(group.rewards)
    return max(abs(reward - mean) for reward in group.rewards) / stdev(group.rewards)
