"""What this node knows of others: their newest announcements, by gossip. A sample of the swarm, not
all of it.

An announcement's age is the sum of what its carriers measured on their own clocks, each from when
it was asked. Honest carriers only make it older, so the announcements of a dead peer are gone
everywhere after `MAX_AGE`. The last number of an author is remembered, so an announcement gets no
younger by being received again.
"""

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter
from random import Random

from protocol import codec, limits
from protocol.messages import Announcement, PeerId
from swarm_node.common.lru import Lru
from swarm_node.network.parties import NETWORK_SHARE, fair_sample

CAPACITY = 64  # announcements
CROWDED = 2  # in one network of addresses, when the view is full
CARRIED = CAPACITY // 4  # passed on by one peer, when the view is full
# Sent by their authors, unasked, when the view is full: anybody can send many
PUSHED = CAPACITY // 8
MAX_AGE = 180.0  # seconds since its author made it
SEQ_MEMORY = 4096  # authors whose last number is remembered
SEQ_SECONDS = 3600.0  # ... for so long: then the author may begin anew, on a new disk for instance


@dataclass(frozen=True, slots=True)
class HeardAnnouncement:
    """The newest announcement of an author, and how it came here."""

    announcement: Announcement
    sealed: bytes
    tag: bytes  # names the author in a digest
    made: float  # seconds, on this node's clock
    source: PeerId  # the peer that passed it on
    network: str  # of addresses, see parties.network_of
    pushed: bool = False  # its author sent it unasked


by_network: Callable[[HeardAnnouncement], str] = attrgetter("network")


@dataclass(frozen=True, slots=True)
class LastHeard:
    """The last number received of an author, and when it came."""

    seq: int
    received: float  # seconds


class View:
    """The announcements that a node keeps of its swarm: at most `CAPACITY` entries, one for each
    author.

    A full view drops the oldest entry of the first crowd that is over its bound: the entries of one
    network of addresses, those that one peer carried here, or those that were pushed. If none is
    over its bound, it drops the oldest of all. It never drops authors in `keep`.
    """

    def __init__(self) -> None:
        self._entries: dict[PeerId, HeardAnnouncement] = {}
        self._known: Lru[PeerId, LastHeard] = Lru(SEQ_MEMORY)
        self._next_expiry = math.inf  # seconds; before then no entry is too old

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[HeardAnnouncement]:
        return iter(self._entries.values())

    def __contains__(self, author: object) -> bool:
        return author in self._entries

    def get(self, author: PeerId) -> HeardAnnouncement | None:
        """The newest announcement of this author; None if none of it was heard."""
        return self._entries.get(author)

    def is_news(self, announcement: Announcement, now: float) -> bool:
        """Whether it is newer than the last one received of its author."""
        known = self._known.get(announcement.author)
        return known is None or announcement.seq > known.seq or now - known.received > SEQ_SECONDS

    def is_jump(self, announcement: Announcement, now: float) -> bool:
        """Whether the number jumps too far: once taken, all later announcements of its author would
        look old.
        """
        known = self._known.get(announcement.author)
        if known is None or now - known.received > SEQ_SECONDS:
            return False
        return announcement.seq > known.seq + limits.MAX_SEQUENCE_JUMP

    def add(self, entry: HeardAnnouncement, now: float, keep: Collection[PeerId]) -> None:
        """Take in a genuine announcement that `is_news`."""
        author = entry.announcement.author
        self._known[author] = LastHeard(entry.announcement.seq, now)
        self._entries[author] = entry
        self._next_expiry = min(self._next_expiry, entry.made + MAX_AGE)
        if len(self._entries) > CAPACITY:
            self._evict(keep)

    def remove(self, author: PeerId) -> None:
        """Drops the author's entry. Its number stays known: only a newer announcement brings it
        back.
        """
        self._entries.pop(author, None)

    def expire(self, now: float) -> None:
        """Forgets announcements that are too old."""
        if now <= self._next_expiry:
            return
        self._entries = {
            author: entry for author, entry in self._entries.items() if now - entry.made <= MAX_AGE
        }
        self._next_expiry = min((entry.made + MAX_AGE for entry in self), default=math.inf)

    def digest(self) -> dict[bytes, int]:
        """Author's tag -> number: the announcements that this node has, for a request."""
        return {entry.tag: entry.announcement.seq for entry in self}

    def news_for(
        self, digest: Mapping[bytes, int], count: int, rng: Random, steady: Collection[PeerId] = ()
    ) -> list[HeardAnnouncement]:
        """Up to `count` entries that the caller lacks: up to half of them by `steady` authors; the
        others, none of them pushed, drawn among twice as many of the youngest, so that copies
        differ.
        """
        lacking = [entry for entry in self if entry.announcement.seq > digest.get(entry.tag, -1)]
        kept = [entry for entry in lacking if entry.announcement.author in steady]
        first = fair_sample(kept, count // 2, by_network, rng)
        chosen = {entry.announcement.author for entry in first}
        rest = [
            entry
            for entry in lacking
            if entry.announcement.author not in chosen and not entry.pushed
        ]
        return first + fair_sample(
            youngest(rest, 2 * (count - len(first))), count - len(first), by_network, rng
        )

    def sequences(self, now: float) -> dict[PeerId, tuple[int, float]]:
        """Last number of each author, and how many seconds ago it was received."""
        return {author: (known.seq, now - known.received) for author, known in self._known.items()}

    def restore(self, sequences: Mapping[PeerId, tuple[int, float]], now: float) -> None:
        self._known = Lru(SEQ_MEMORY)
        for author, (seq, ago) in sequences.items():
            self._known[author] = LastHeard(seq, now - max(0.0, ago))

    def _evict(self, keep: Collection[PeerId]) -> None:
        free = [entry for author, entry in self._entries.items() if author not in keep]
        crowd = _largest(free, by_network, CROWDED)
        crowd = crowd or _largest(free, lambda entry: entry.source, CARRIED)
        pushed = [entry for entry in free if entry.pushed]
        crowd = crowd or (pushed if len(pushed) > PUSHED else free)
        self.remove(min(crowd, key=lambda entry: entry.made).announcement.author)


def _largest(
    entries: list[HeardAnnouncement], key: Callable[[HeardAnnouncement], str], allowed: int
) -> list[HeardAnnouncement]:
    """The entries of the most frequent key, if there are more of them than allowed."""
    counts = Counter(map(key, entries))
    name, count = counts.most_common(1)[0]
    if count <= allowed:
        return []
    return [entry for entry in entries if key(entry) == name]


def youngest(entries: list[HeardAnnouncement], count: int) -> list[HeardAnnouncement]:
    """The youngest `count` entries, but each network has only `NETWORK_SHARE` before all networks
    have had theirs: youth is claimed easily, addresses are not.
    """
    seen: Counter[str] = Counter()
    ranked: list[tuple[int, int, HeardAnnouncement]] = []
    for entry in sorted(entries, key=lambda entry: entry.made, reverse=True):
        ranked.append((seen[entry.network] // NETWORK_SHARE, len(ranked), entry))
        seen[entry.network] += 1
    return [entry for _, _, entry in sorted(ranked)[:count]]


def age_of(made: float, now: float) -> int:
    """The age in tenths of a second, rounded up, as messages carry it."""
    return min(limits.MAX_AGE_DECISECONDS, max(0, math.ceil((now - made) * 10)))


# Called for all groups held and offered, several times a round: at most so many
@lru_cache(maxsize=1024)
def holding(key: str) -> str:
    """The hint by which an announcement names a group that its author holds: the first bytes of its
    hash, as text.
    """
    return codec.to_text(codec.to_bytes(key)[: limits.HOLDING_BYTES])
