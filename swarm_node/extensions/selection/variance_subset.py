"""Of each group the completions whose rewards vary most: PODS (arXiv 2504.13818). Half the tokens to train on."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from statistics import pvariance

from swarm_node.rollouts.defence import only
from swarm_node.rollouts.groups import ExternalGroup, Score, Selected
from swarm_node.rollouts.sampler import UniformSampler

KEPT = 4  # completions of a group


class VarianceSubsetSampler(UniformSampler):
    """Uniform over groups; of each the `KEPT` completions with the largest variance of reward, which are some of the
    highest and some of the lowest. A sender gains nothing: it chooses the whole group anyway."""

    def select(self, count: int, candidates: Sequence[ExternalGroup], score: Score, rng: Random) -> Selected:
        """See `Sampler`."""
        selected = super().select(count, candidates, score, rng)
        return replace(selected, groups=[only(group, subset(group.rewards, KEPT, rng)) for group in selected.groups])


def subset(rewards: Sequence[float], size: int, rng: Random) -> list[int]:
    """Positions of at most `size` rewards with the largest variance; at random among equal ones. In ascending order."""
    order = sorted(rng.sample(range(len(rewards)), len(rewards)), key=rewards.__getitem__)
    size = min(size, len(order))
    choices = [order[: size - high] + order[len(order) - high :] for high in range(size + 1)]
    return sorted(max(choices, key=lambda chosen: pvariance([rewards[i] for i in chosen])))
