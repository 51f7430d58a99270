"""Trains on the external groups that arrived last."""

from collections.abc import Sequence
from random import Random

from swarm_node.rollouts.groups import Draw, ExternalGroup, Score
from swarm_node.rollouts.samplers import Sampler


class FreshestSampler(Sampler):
    def draw(self, count: int, candidates: Sequence[ExternalGroup], score: Score, rng: Random) -> Draw:
        """`candidates` are in the order of arrival. Scoring costs time, so it goes on only until there are enough."""
        drawn, spent = [], []
        for candidate in reversed(candidates):
            if len(drawn) == count:
                break
            drawn += [scored for scored in score([candidate]) if scored.has_signal]
            spent.append(candidate)
        return Draw(drawn, spent)
