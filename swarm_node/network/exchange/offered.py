"""What this node offers to others: one signed announcement at a time, and the groups that can be fetched here."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from protocol import announcing, limits
from protocol.identity import Identity
from protocol.messages import Announcement, Round
from swarm_node.network.actions import SERVE_ROUNDS
from swarm_node.network.parties import trim

REFRESH = 60.0  # seconds after which it is said anew, a third of what others remember it for


class LocalAnnouncement:
    """What this node says of itself: where it is, and what groups it has. Signed again when that changes."""

    def __init__(self, identity: Identity, swarm: str, now: float) -> None:
        self._identity = identity
        self._swarm = swarm
        self._addresses: tuple[str, ...] = ()
        self._groups: tuple[str, ...] = ()
        self._held: tuple[str, ...] = ()
        self._round = Round(0)
        self.seq = -1  # of the newest announcement
        self.sealed = b""
        self.made = now  # seconds
        self.outdated = True  # there is something new to say

    def published(self, round: Round, groups: Sequence[str]) -> None:
        """Content hashes of the groups of its last round, as many as an announcement holds."""
        self._round = round
        self._groups = tuple(groups[: limits.MAX_ANNOUNCED_GROUPS])

    def reachable(self, addresses: Sequence[str]) -> None:
        """Own multiaddrs, best first."""
        before, self._addresses = self._addresses, trim(addresses, self._identity.peer_id)
        self.outdated = self.outdated or self._addresses != before

    def renew(self, held: Sequence[str], now: float) -> None:
        """Before talking: what was fetched since the last announcement is told along, and costs no talk of its own."""
        if self.sealed and tuple(held) != self._held:
            self.announce(held, now)

    def announce(self, held: Sequence[str], now: float) -> None:
        """Say it all anew. `held`: hints to external groups, as many as an announcement holds."""
        self._held = tuple(held)
        self.seq, self.made, self.outdated = self.seq + 1, now, False
        announcement = Announcement(
            addresses=self._addresses,
            author=self._identity.peer_id,
            groups=self._groups,
            held=self._held,
            round=self._round,
            seq=self.seq,
        )
        self.sealed = announcing.seal(announcement, self._identity, self._swarm)

    def overtake(self, seq: int) -> None:
        """Another announcement with this number is about, and it has this node's signature: go above it, soon."""
        self.seq, self.outdated = seq, True


MIN_SECONDS = 60.0  # a group is served at least so long, however quickly rounds pass: others learn of it late
MAX_BYTES = 32 * 1024 * 1024  # of all envelopes; the oldest make room


@dataclass(frozen=True, slots=True)
class Held:
    """A group that others may fetch here."""

    envelope: bytes
    own: bool
    round: int  # rounds this node had published when it came in
    since: float  # seconds


class GroupStore:
    """Oldest first, bounded in rounds and bytes."""

    def __init__(self, rounds: int = SERVE_ROUNDS) -> None:
        """`rounds`: those of this node for which a group stays available."""
        self._rounds = rounds
        self._held: dict[str, Held] = {}
        self._bytes = 0

    def __contains__(self, key: str) -> bool:
        return key in self._held

    def __len__(self) -> int:
        return len(self._held)

    def get(self, key: str) -> bytes:
        """The envelope, or b""."""
        held = self._held.get(key)
        return held.envelope if held else b""

    def add(self, key: str, envelope: bytes, *, own: bool, round: int, now: float) -> None:
        """Holds the group by its content hash; the oldest make room."""
        self.remove([key])
        self._held[key] = Held(envelope, own, round, now)
        self._bytes += len(envelope)
        while self._bytes > MAX_BYTES:
            self.remove([next(iter(self._held))])

    def remove(self, keys: Iterable[str]) -> None:
        """Those of the keys that are held."""
        for key in keys:
            held = self._held.pop(key, None)
            if held:
                self._bytes -= len(held.envelope)

    def expire(self, round: int, now: float) -> None:
        """Forget what is old both in rounds and in seconds."""
        oldest, before = round - self._rounds, now - MIN_SECONDS
        self.remove([key for key, held in self._held.items() if held.round <= oldest and held.since < before])

    def external(self, count: int) -> list[str]:
        """Hashes of up to `count` external groups, the newest first."""
        return list(islice((key for key, held in reversed(self._held.items()) if not held.own), count))
