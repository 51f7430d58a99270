"""From the rewards of a group to the advantages of its completions (GRPO, arXiv 2402.03300; SAPO,
arXiv 2509.08721).

`training.scale_rewards` names a rule of `ADVANTAGES`, one that another package registers, or a
function in a file of the user's.
"""

from collections.abc import Callable, Sequence
from math import fsum, sqrt
from statistics import fmean, pstdev
from typing import Literal

from swarm_node.rollouts.groups import all_equal

Advantages = Callable[[Sequence[float]], list[float]]
"""From the rewards of a group to one advantage per completion."""

# SAPO, and genrl: A = (r - mean) / (std + 1e-8). TRL adds 1e-4, which shrinks advantages where
# rewards hardly differ; here such rewards count as equal (`all_equal`).
EPSILON = 1e-8


def group_advantages(
    rewards: Sequence[float], scale: Literal["group", "none"] = "group"
) -> list[float]:
    """One advantage per completion of a group.

    `std` is the sample standard deviation (n - 1), as in TRL and genrl. Equal rewards are found by
    comparison, not by a small deviation: after rounding, eight rewards of 0.1 would otherwise have
    advantages of 0.3 to 0.8, and one reward of 16 that is a millionth higher one of 3.6.
    """
    if all_equal(rewards):
        return [0.0] * len(rewards)
    mean = fsum(rewards) / len(rewards)
    centred = [reward - mean for reward in rewards]
    if scale == "none":
        return centred
    std = sqrt(fsum(c * c for c in centred) / (len(rewards) - 1))
    return [c / (std + EPSILON) for c in centred]


def population_advantages(rewards: Sequence[float]) -> list[float]:
    """(r - mean) / (population deviation + 1e-6), as in the published recipe for Temporal Clue."""
    if all_equal(rewards):
        return [0.0] * len(rewards)
    return [(reward - fmean(rewards)) / (pstdev(rewards) + 1e-6) for reward in rewards]


def unscaled_advantages(rewards: Sequence[float]) -> list[float]:
    """Advantages in units of reward, not divided by a deviation (Dr. GRPO, arXiv 2503.20783)."""
    return group_advantages(rewards, "none")


# By the names that `training.scale_rewards` takes: `ADVANTAGES` of settings/training.py lists them
ADVANTAGES: dict[str, Advantages] = {
    "group": group_advantages,
    "population": population_advantages,
    "none": unscaled_advantages,
}
