from collections.abc import Sequence
from random import Random

from swarm_node.rollouts.defence import Layer
from swarm_node.rollouts.groups import ScoredGroup


class NoShouting(Layer):
    reason = "shouted"

    def keep(self, local: Sequence[ScoredGroup], groups: Sequence[ScoredGroup], rng: Random) -> list[list[int]]:
        return [[i for i, each in enumerate(group.group.episodes) if not each.text.isupper()] for group in groups]
