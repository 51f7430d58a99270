"""What this node says of itself: one signed announcement at a time, each with a higher number than the last."""

from collections.abc import Sequence

from protocol import announcing, limits
from protocol.identity import Identity
from protocol.messages import Announcement, Round
from swarm_node.network.exchange.addresses import trim

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
        if self.sealed and tuple(held[: limits.MAX_ANNOUNCED_HOLDINGS]) != self._held:
            self.announce(held, now)

    def announce(self, held: Sequence[str], now: float) -> None:
        """Say it all anew. `held`: hints to external groups."""
        self._held = tuple(held[: limits.MAX_ANNOUNCED_HOLDINGS])
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
