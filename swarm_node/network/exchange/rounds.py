"""Which rounds an author may come with: none far below those that it came with lately.

An author numbers its rounds upwards, and the questions of a round follow from its number. An old
number has one of two causes: somebody sends old text again, or the author has continued from a
checkpoint and does its last few rounds once more. A continued author goes back only a few rounds.

So this module remembers the lowest round that an author came with in the last quarter of an hour,
and in the quarter of an hour before that. It calls a round far below if it is more than BACK rounds
below both. Within a quarter of an hour even a node that makes a checkpoint every ten minutes has
come with a round after its checkpoint. If nothing of an author was admitted for half an hour, the
author may begin at any number, for instance because it has a new disk.

The module has no clock: its methods get the time as an argument, in seconds.
"""

from dataclasses import dataclass

from protocol.messages import PeerId
from swarm_node.common.lru import Lru

BACK = 64  # rounds below the lowest of lately that are let in
LATELY = 900.0  # seconds, longer than from one checkpoint to the next
MAX_AUTHORS = 4096  # that are remembered


@dataclass(slots=True)
class _Lately:
    """The lowest round of an author, since `since` and in the quarter of an hour before that."""

    since: float  # seconds
    lowest: int
    before: int


class Rounds:
    """The rounds that authors came with lately."""

    def __init__(self) -> None:
        self._lately: Lru[PeerId, _Lately] = Lru(MAX_AUTHORS)

    def is_far_below(self, author: PeerId, round: int, now: float) -> bool:
        """Whether this round is far below those that its author came with lately."""
        lately = self._lately.get(author)
        if lately is None or now - lately.since >= 2 * LATELY:
            return False
        return round < min(lately.lowest, lately.before) - BACK

    def came(self, author: PeerId, round: int, now: float) -> None:
        """Notes a round of which a group was admitted."""
        lately = self._lately.get(author)
        if lately is None or now - lately.since >= 2 * LATELY:
            lately = _Lately(now, round, round)
        elif now - lately.since >= LATELY:
            lately = _Lately(now, round, lately.lowest)
        lately.lowest = min(lately.lowest, round)
        self._lately[author] = lately
