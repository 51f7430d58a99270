"""Groups this node can serve, by content hash (base64url text): its own of the last rounds, and those it pulled."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

MIN_SECONDS = 60.0  # a group is served at least so long, however quickly rounds pass: others learn of it late
SERVE_ROUNDS = 3
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
