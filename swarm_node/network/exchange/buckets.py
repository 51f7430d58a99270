"""Token buckets: how much one peer, one network of addresses and everybody together may ask for.

Asking is cheap for the one who asks, so saying no must be cheaper than answering: nothing of a request is read before
`Budgets.allow`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from protocol.messages import PeerId
from swarm_node.common.lru import Lru

MAX_TRACKED = 4096  # peers, and networks, whose buckets are remembered
NETWORK_PEERS = 4  # a network of addresses (/24) may ask for as much as this many peers


@dataclass(frozen=True, slots=True)
class Rate:
    """How much is allowed: steadily, and at once."""

    per_second: float
    burst: float


@dataclass(slots=True)
class Bucket:
    """Fills by itself, up to its burst. Starts full."""

    rate: Rate
    level: float
    updated: float  # seconds

    def holds(self, amount: float, now: float) -> bool:
        """Whether this amount is there now (`now` in seconds)."""
        self.level = min(self.rate.burst, self.level + (now - self.updated) * self.rate.per_second)
        self.updated = now
        return self.level >= amount

    def take(self, amount: float) -> None:
        self.level -= amount


@dataclass(frozen=True, slots=True)
class Limit:
    """Of one kind of thing, for one peer and for all together; a network of addresses lies in between."""

    peer: Rate
    total: Rate

    @property
    def network(self) -> Rate:
        return Rate(self.peer.per_second * NETWORK_PEERS, self.peer.burst * NETWORK_PEERS)


class Budgets:
    """All buckets of one node. `network` "" is an address that counts in no network: one's own LAN, or unknown."""

    def __init__(self, limits: Mapping[str, Limit], now: float) -> None:
        self._limits = limits
        self._total = {kind: Bucket(limit.total, limit.total.burst, now) for kind, limit in limits.items()}
        self._shared: Lru[tuple[str, str], Bucket] = Lru(MAX_TRACKED * len(limits))  # by kind, and peer or network

    def allow(self, kind: str, amount: float, peer: PeerId, network: str, now: float) -> bool:
        """Whether there is room in all three buckets; then it is taken from all three, else from none."""
        limit = self._limits[kind]
        buckets = [self._bucket(kind, network, limit.network, now)] if network else []
        if not all(bucket.holds(amount, now) for bucket in buckets):
            return False  # before the peer gets a bucket: a thousand identities must not push out those of others
        buckets += [self._bucket(kind, peer, limit.peer, now), self._total[kind]]
        if not all(bucket.holds(amount, now) for bucket in buckets):
            return False
        for bucket in buckets:
            bucket.take(amount)
        return True

    def _bucket(self, kind: str, name: str, rate: Rate, now: float) -> Bucket:
        key = (kind, name)
        bucket = self._shared.get(key) or Bucket(rate, rate.burst, now)
        self._shared[key] = bucket
        return bucket
