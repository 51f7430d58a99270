"""Turns scores into rewards. Only `dataset.form_weight` may change a reward later. Advantages come
from rewards.

A score is what a scorer returns for a completion, in [0, 1]; 1 is a right answer. A reward is what
training uses.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from swarm_node.scoring.bound import RIGHT_FROM

Scoring = Literal["exact", "graded"]

# 0.1 + 0.2 and 0.3 are one reward: what differs by rounding alone must not look informative
DIGITS = 6


def is_right(score: float) -> bool:
    """Whether this score counts as a right answer."""
    return score >= RIGHT_FROM


@dataclass(frozen=True, slots=True)
class RewardRule:
    """How a score becomes a reward. `exact`: 1 for a right answer, else 0. `graded`: partial credit
    too.
    """

    scoring: Scoring
    partial: float = 1.0  # factor of partial credit

    def reward(self, score: float) -> float:
        """The reward of a completion with this score, in [0, 1]."""
        if is_right(score):
            return 1.0 if self.scoring == "exact" else round(score, DIGITS)
        return 0.0 if self.scoring == "exact" else round(score * self.partial, DIGITS)

    def rewards(self, scores: Sequence[float]) -> tuple[float, ...]:
        """The rewards of the completions of a group."""
        return tuple(map(self.reward, scores))
