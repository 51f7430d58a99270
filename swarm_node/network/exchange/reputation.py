"""What this node found out about each peer by itself. Never gossiped: an opinion of others would be one more attack.

Two things are kept apart. Serving: whether pulls from a peer succeed, a moving average that steers whom to ask. Guilt:
points for what it signed or served, halved every ten minutes; enough of them quarantine a peer (its groups are not
pulled) and more ban it (it is hung up on).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from protocol.messages import PeerId
from protocol.rejection import Reason

MAX_PEERS = 4096
BAN_SECONDS = 3600.0
HALF_LIFE = 600.0  # seconds until guilt has halved
QUARANTINE = 3.0  # points
BAN = 8.0
EWMA = 0.2  # weight of the newest pull
USEFUL, UNINFORMATIVE = "useful", "uninformative"

# What the trainer's side found in an authentic group. Points fit what can happen to an honest peer: another version or
# other settings are no crime, a forged address is.
POINTS: Mapping[str, float] = {
    USEFUL: -1.0,
    UNINFORMATIVE: 0.0,
    Reason.WRONG_SEED: 4.0,
    Reason.LOCAL_MESSAGE: 0.0,
    Reason.TOO_MANY_COMPLETIONS: 1.0,
    Reason.COMPLETION_TOO_LONG: 1.0,
    Reason.UNKNOWN_QUESTION: 1.0,
    "slow question": 0.0,  # its author cannot know this machine
    "slow question sought out": 1.0,
    "scorer raised": 0.0,  # a mistake in the scorer, not in what it scored
    "not a score": 0.0,
}
OURS = "environment raised "  # so begin reasons that are no peer's doing: all groups of a round have them
OTHER_POINTS = 1.0  # anything else it could not use: a scorer that hung, a question that could not be built
BAD_REPLY_POINTS = 2.0  # an answer that nobody following the protocol gives


def points(outcome: str) -> float:
    """Of guilt, for what the trainer's side found in a group."""
    return 0.0 if outcome.startswith(OURS) else POINTS.get(outcome, OTHER_POINTS)


@dataclass(slots=True)
class Record:
    """What a peer has earned itself."""

    success: float = 1.0  # moving average of pulls, 0 to 1; the benefit of the doubt first
    pulls: int = 0
    guilt: float = 0.0  # points, at `scored`
    scored: float = 0.0  # seconds
    banned_until: float = float("-inf")  # seconds
    faults: dict[str, int] = field(default_factory=dict)  # how often it was charged, by reason
    served: int = 0  # groups that it fetched from this node
    authored: int = 0  # groups by it that this node admitted

    def guilt_at(self, now: float) -> float:
        """Points, of which half are forgiven every `HALF_LIFE`."""
        return self.guilt * math.exp2((self.scored - now) / HALF_LIFE)


class Reputation:
    """Records of the peers dealt with most recently."""

    def __init__(self) -> None:
        self._records: dict[PeerId, Record] = {}

    def of(self, peer: PeerId) -> Record:
        """For reading only; a fresh one for a stranger."""
        return self._records.get(peer) or Record()

    def success(self, peer: PeerId) -> float:
        """Moving average of pulls from it, 0 to 1."""
        record = self._records.get(peer)
        return record.success if record else 1.0

    def pulled(self, peer: PeerId, success: bool) -> None:
        """Notes how a pull from it went."""
        record = self._touch(peer)
        record.pulls += 1
        record.success += EWMA * (success - record.success)

    def served(self, peer: PeerId, groups: int) -> None:
        """Notes that it fetched groups here."""
        if groups:
            self._touch(peer).served += groups

    def authored(self, peer: PeerId) -> None:
        """Notes that a group by it was admitted."""
        self._touch(peer).authored += 1

    def charge(self, peer: PeerId, points: float, now: float, why: str) -> bool:
        """Add points of guilt, or take some off. Whether that makes it banned now."""
        record = self._touch(peer)
        if points > 0:
            record.faults[why] = record.faults.get(why, 0) + 1
        record.guilt, record.scored = max(0.0, record.guilt_at(now) + points), now
        if record.guilt < BAN or self.is_banned(peer, now):
            return False
        self.ban(peer, now)
        return True

    def ban(self, peer: PeerId, now: float, seconds: float = BAN_SECONDS, why: str = "") -> None:
        """From `now` on, for so many seconds."""
        record = self._touch(peer)
        record.banned_until = now + seconds
        if why:
            record.faults[why] = record.faults.get(why, 0) + 1

    def is_banned(self, peer: PeerId, now: float) -> bool:
        """Whether a ban of it still runs."""
        record = self._records.get(peer)
        return record is not None and now < record.banned_until

    def is_trusted(self, peer: PeerId, now: float) -> bool:
        """Neither banned nor in quarantine."""
        record = self._records.get(peer)
        return record is None or (now >= record.banned_until and record.guilt_at(now) < QUARANTINE)

    def state(self, peer: PeerId, now: float) -> str:
        """In a word: ok, quarantined or banned."""
        if self.is_banned(peer, now):
            return "banned"
        return "ok" if self.is_trusted(peer, now) else "quarantined"

    def bans(self, now: float) -> dict[PeerId, float]:
        """Seconds each ban has yet to run."""
        return {peer: record.banned_until - now for peer, record in self._records.items() if record.banned_until > now}

    def _touch(self, peer: PeerId) -> Record:
        record = self._records.pop(peer, None) or Record()
        self._records[peer] = record
        if len(self._records) > MAX_PEERS:
            # Whoever weighs least goes first, so that minting identities frees no culprit.
            oldest = list(self._records)[: MAX_PEERS // 8]
            del self._records[min(oldest, key=lambda name: self._weight(self._records[name]))]
        return record

    @staticmethod
    def _weight(record: Record) -> tuple[float, float]:
        return record.banned_until, record.guilt
