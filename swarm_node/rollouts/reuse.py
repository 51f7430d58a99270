"""External groups that serve several quick rounds: a round may take 50 ms, and the network brings groups once a second.

Bounded in rounds and in seconds, so that rounds which take long use every group once, as the paper does. Simulations
never use a group twice. What is kept here is not in a checkpoint: seconds later it would be forgotten in any case.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from swarm_node.rollouts.groups import ScoredGroup


@dataclass(slots=True)
class _Used:
    group: ScoredGroup
    since: float  # seconds, when it was first trained on
    rounds: int = 1  # it has served


class Reuse:
    """Groups as they were selected: scored and screened once, and not a second time."""

    def __init__(self, rounds: int, seconds: float) -> None:
        """A group serves so many rounds at most, and none later than so many seconds after its first."""
        self._rounds, self._seconds = rounds, seconds
        self._used: list[_Used] = []

    def waiting(self, now: float) -> int:
        """Groups that may serve another round."""
        self._used = [each for each in self._used if now - each.since <= self._seconds and each.rounds < self._rounds]
        return len(self._used)

    def select(self, count: int, now: float, random: Random) -> list[ScoredGroup]:
        """Up to `count` groups that served a round before. Where it may find none, it draws no random number."""
        found = self.waiting(now)
        chosen = random.sample(self._used, min(count, found)) if count > 0 and found else []
        for each in chosen:
            each.rounds += 1
        return [each.group for each in chosen]

    def add(self, groups: Sequence[ScoredGroup], now: float) -> None:
        """They serve their first round."""
        if self._rounds > 1:
            self._used += [_Used(group, now) for group in groups]
