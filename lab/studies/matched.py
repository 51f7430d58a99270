"""A sampler for an ablation of sharing, named as lab.studies.matched:MatchedSampler."""

from collections.abc import Sequence

from swarm_node.rollouts.groups import ScoredGroup
from swarm_node.rollouts.sampler import UniformSampler


class MatchedSampler(UniformSampler):
    """An ablation: a round trains on as many informative groups as if all its groups were local. So sharing adds no
    informative groups."""

    def wanted(self, external: int, others: Sequence[ScoredGroup]) -> int:
        return sum(group.informative for group in others)
