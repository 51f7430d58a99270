"""Tasks at which this node is right half of the time: p(1 - p), as in prioritised replay, and arXiv 2506.05316."""

from collections.abc import Sequence
from random import Random

from swarm_node.extensions.selection.tasks import Task, rates, task_of
from swarm_node.rollouts.groups import ExternalGroup, Score, ScoredGroup, Selected
from swarm_node.rollouts.sampler import UniformSampler

LEAST = 0.02  # weight of a task that this node always or never gets right: p(1 - p) of p = 0.02
UNKNOWN = 0.25  # weight of a task that it did not ask this round: the highest


class UncertainSampler(UniformSampler):
    """Uniform, but groups are tried in an order drawn with the weight p(1 - p) of their task.

    p is this node's own rate in this round. No sender can change it.
    """

    def __init__(self) -> None:
        self._rates: dict[Task, float] = {}

    def observe(self, local: Sequence[ScoredGroup]) -> None:
        """Own rates by task."""
        self._rates = rates(local)

    def select(self, count: int, candidates: Sequence[ExternalGroup], score: Score, rng: Random) -> Selected:
        """See `Sampler`. Scores no more than needed."""
        order = sorted(candidates, key=lambda group: rng.random() ** (1 / self.weight(task_of(group))), reverse=True)
        return in_order(count, order, score)

    def weight(self, task: Task) -> float:
        """Of a group of this task (Efraimidis and Spirakis 2006 draws by it without replacement)."""
        if task not in self._rates:
            return UNKNOWN
        return max(LEAST, self._rates[task] * (1 - self._rates[task]))


def in_order(count: int, order: Sequence[ExternalGroup], score: Score) -> Selected:
    """The first informative ones, scored only until there are enough."""
    selected: list[ScoredGroup] = []
    spent: list[ExternalGroup] = []
    while len(spent) < len(order) and len(selected) < count:
        asked = order[len(spent) : len(spent) + count - len(selected)]
        selected += [scored for scored in score(asked) if scored.informative]
        spent += asked
    return Selected(selected, spent)
