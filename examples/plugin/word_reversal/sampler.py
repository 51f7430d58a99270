"""Selects the external groups that arrived last."""

from collections.abc import Sequence
from random import Random

from swarm_node.rollouts.groups import Group
from swarm_node.rollouts.sampler import Sampler


class FreshestSampler(Sampler):
    def order(self, candidates: Sequence[Group], rng: Random) -> list[Group]:
        """`candidates` are in the order of arrival. They are scored in the order returned, until
        there are enough.
        """
        return list(reversed(candidates))

    def at_once(self, missing: int) -> int:
        """One by one."""
        return 1
