"""Peers that nobody can crowd out: a sample of the networks of addresses that were ever met, however often.

Each slot has a secret, and keeps the peer in whose network the hash with it is least (min-wise sampling, as in Brahms:
Bortnikov, Gurevich, Keidar, Kliot and Shraer, 2009). Who talks more, sooner or under more names gets no more of it: a
tenth of the addresses gets a tenth of the slots.
"""

from hashlib import blake2b
from random import Random

from protocol.messages import PeerId

SLOTS = 24


class Sample:
    """Up to `SLOTS` peers."""

    def __init__(self, rng: Random) -> None:
        self._secrets = [rng.randbytes(16) for _ in range(SLOTS)]
        self._slots: list[tuple[bytes, PeerId]] = [(b"\xff" * 9, PeerId("")) for _ in range(SLOTS)]
        self.peers: frozenset[PeerId] = frozenset()

    def offer(self, peer: PeerId, network: str) -> None:
        """Adds a peer that was met. Of one network the first stays, as long as it replies."""
        if not network or peer in self.peers:
            return
        name, changed = network.encode(), False
        for number, secret in enumerate(self._secrets):
            key = blake2b(name, key=secret, digest_size=8).digest()
            if key < self._slots[number][0]:
                self._slots[number], changed = (key, peer), True
        if changed:
            self._count()

    def drop(self, peer: PeerId) -> None:
        """It is no longer there."""
        if peer in self.peers:
            self._slots = [(b"\xff" * 9, PeerId("")) if name == peer else (key, name) for key, name in self._slots]
            self._count()

    def _count(self) -> None:
        self.peers = frozenset(peer for _, peer in self._slots if peer)
