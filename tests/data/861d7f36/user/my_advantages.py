from collections.abc import Sequence
from statistics import fmean


def against_the_best(rewards: Sequence[float]) -> list[float]:
    """Only the best completions of a group are reinforced."""
    best, mean = max(rewards), fmean(rewards)
    return [best - mean if reward == best else 0.0 for reward in rewards]
