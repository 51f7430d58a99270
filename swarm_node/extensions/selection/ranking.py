"""The base of samplers that rank: they compare groups that are scored, and so score more than they take."""

from abc import abstractmethod
from collections.abc import Sequence
from random import Random

from swarm_node.rollouts.groups import ExternalGroup, Score, ScoredGroup, Selected
from swarm_node.rollouts.sampler import Sampler

MOST = 64  # groups that are scored in a round, where scoring was not done ahead of it


class RankingSampler(Sampler):
    """Scores what waits, at random up to `MOST`, and takes the first by `rank`.

    `run` scores ahead on a budget of time, and offers what is scored: there ranking costs nothing more. The rest waits
    for the next round, unless it is uninformative or refused.
    """

    @abstractmethod
    def rank(self, groups: Sequence[ScoredGroup], count: int, rng: Random) -> list[ScoredGroup]:
        """At most `count` of the groups, all informative and in random order."""

    def select(self, count: int, candidates: Sequence[ExternalGroup], score: Score, rng: Random) -> Selected:
        """See `Sampler`."""
        if not count:
            return Selected([], [])
        asked = rng.sample(candidates, min(MOST, len(candidates)))
        scored = [group for group in score(asked) if group.informative]
        chosen = self.rank(scored, count, rng)
        taken = {(group.author, group.question) for group in chosen}
        left = {(group.author, group.question) for group in scored} - taken
        return Selected(chosen, [group for group in asked if (group.author, group.question) not in left])
