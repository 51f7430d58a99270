"""As many authors and tasks as there are: the idea of stratified sampling, without a source of its own."""

from collections import Counter
from collections.abc import Sequence
from random import Random

from protocol.messages import PeerId
from swarm_node.extensions.selection.tasks import Task, task_of
from swarm_node.extensions.selection.uncertain import in_order
from swarm_node.rollouts.groups import ExternalGroup, Score, Selected
from swarm_node.rollouts.sampler import UniformSampler


class DiverseSampler(UniformSampler):
    """Tries groups in an order in which authors and tasks repeat as late as possible.

    A sender can steer it: with many identities, each an author of its own.
    """

    def select(self, count: int, candidates: Sequence[ExternalGroup], score: Score, rng: Random) -> Selected:
        """See `Sampler`. Scores no more than needed."""
        return in_order(count, spread(rng.sample(candidates, len(candidates))), score)


def spread(groups: Sequence[ExternalGroup]) -> list[ExternalGroup]:
    """The groups, those of tasks and authors that came least often before them first."""
    left, order = list(groups), list[ExternalGroup]()
    tasks, authors = Counter[Task](), Counter[PeerId]()
    while left:
        found = min(left, key=lambda group: tasks[task_of(group)] + authors[group.author])
        left.remove(found)
        order.append(found)
        tasks[task_of(found)] += 1
        authors[found.author] += 1
    return order
