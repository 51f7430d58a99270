"""Selects the external groups that arrived last."""

from collections.abc import Sequence
from random import Random

from swarm_node.rollouts.groups import ExternalGroup, Score, Selected
from swarm_node.rollouts.sampler import Sampler


class FreshestSampler(Sampler):
    def select(self, count: int, candidates: Sequence[ExternalGroup], score: Score, rng: Random) -> Selected:
        """`candidates` are in the order of arrival. Scoring costs time, so it goes on only until there are enough."""
        selected, spent = [], []
        for candidate in reversed(candidates):
            if len(selected) == count:
                break
            selected += [scored for scored in score([candidate]) if scored.informative]
            spent.append(candidate)
        return Selected(selected, spent)
