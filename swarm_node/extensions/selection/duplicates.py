"""A layer of the defence that takes repetition from an attacker."""

from collections.abc import Sequence
from random import Random

from swarm_node.rollouts.defence import Layer, strings_of
from swarm_node.rollouts.groups import ScoredGroup

NEAR = 0.9  # two texts with at least this share of strings in common are near-duplicates


class DuplicatesLayer(Layer):
    """Keeps one of near-identical completions."""

    reason = "near-duplicates"

    def keep(self, local: Sequence[ScoredGroup], groups: Sequence[ScoredGroup], rng: Random) -> list[list[int]]:
        return [distinct(group) for group in groups]


def distinct(group: ScoredGroup) -> list[int]:
    """Positions of the first of every set of near-duplicates: equal in reward and digits, most strings in common."""
    chosen: list[int] = []
    strings = [strings_of(" ".join(completion.text.lower().split())) for completion in group.group.completions]
    digits = ["".join(filter(str.isdigit, completion.text)) for completion in group.group.completions]
    for i, reward in enumerate(group.rewards):
        twins = (
            group.rewards[k] == reward and digits[k] == digits[i] and _similar(strings[k], strings[i]) for k in chosen
        )
        if not any(twins):
            chosen.append(i)
    return chosen


def _similar(one: frozenset[str], other: frozenset[str]) -> bool:
    union = len(one | other)
    return union == 0 or len(one & other) / union >= NEAR
