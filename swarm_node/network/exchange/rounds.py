"""Which rounds an author may come with: none far below those that it came with lately.

An author numbers its rounds upwards, and the questions of a round follow from its number. So an old
round is either old text that is sent again, or an author that goes on from a checkpoint: it does a
few rounds once more. The two differ by how far they go back. A round is refused that is more than
BACK below every round that its author came with in the last quarter of an hour or longer; in that
time even a node that makes a checkpoint every ten minutes has come with a round after it. An author
of whom nothing was admitted for half an hour may begin anew, on a new disk for instance.

Pure: seconds are arguments.
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
