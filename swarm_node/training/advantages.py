"""Group-relative advantages (GRPO, arXiv 2402.03300; SAPO, arXiv 2509.08721)."""

from collections.abc import Callable, Sequence
from math import fsum, sqrt
from statistics import fmean, pstdev
from typing import Literal

Advantages = Callable[[Sequence[float]], list[float]]
"""From the rewards of a group to one advantage per completion. Registered in pyproject.toml."""

EPSILON = 1e-8  # SAPO: A = (r - mean) / (std + 1e-8)


def group_advantages(rewards: Sequence[float], scale: Literal["group", "none"] = "group") -> list[float]:
    """One advantage per completion of a group.

    `std` is the sample standard deviation (n - 1), as in TRL. Equal rewards are found by comparison, not by a small
    deviation: after rounding, eight rewards of 0.1 would otherwise have advantages of 0.3 to 0.8.
    """
    if len(set(rewards)) <= 1:
        return [0.0] * len(rewards)
    mean = fsum(rewards) / len(rewards)
    centred = [reward - mean for reward in rewards]
    if scale == "none":
        return centred
    std = sqrt(fsum(c * c for c in centred) / (len(rewards) - 1))
    return [c / (std + EPSILON) for c in centred]


def population_advantages(rewards: Sequence[float]) -> list[float]:
    """(r - mean) / (population deviation + 1e-6), as in the published recipe for Temporal Clue."""
    if len(set(rewards)) <= 1:
        return [0.0] * len(rewards)
    return [(reward - fmean(rewards)) / (pstdev(rewards) + 1e-6) for reward in rewards]


def rare_first_advantages(rewards: Sequence[float]) -> list[float]:
    """The group's advantages times (1 - p)^g with p the mean reward (F-GRPO, arXiv 2602.06717), g = 1.

    A group that succeeds rarely counts more. The author of an external group chooses its p; the factor is at most 1.
    """
    p = fsum(rewards) / len(rewards) if rewards else 0.0
    return [(1.0 - p) * advantage for advantage in group_advantages(rewards)]


def unscaled_advantages(rewards: Sequence[float]) -> list[float]:
    """In units of reward (Dr. GRPO, arXiv 2503.20783)."""
    return group_advantages(rewards, "none")
