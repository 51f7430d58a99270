"""The address book: peers this node may call, and how calling went. Outlives what gossip says of them.

A peer that was ever talked to is kept longer than one that was only named: after a partition, or when everybody in the
view is hostile, those are the way back.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf

from protocol import limits
from protocol.messages import PeerId
from swarm_node.common.backoff import backoff

MAX_CONTACTS = 512
FIRST_RETRY = 5.0  # seconds after a failed call; doubles with every further one
MAX_RETRY = 60.0
HELD_PAUSE = 20.0  # seconds until a peer that may not be dialled now is thought of again
ANCHORS = 8  # peers known longest that still answer: gossip does not push them out


@dataclass(slots=True)
class Contact:
    """What is known of a peer that may be called."""

    peer: PeerId
    addresses: tuple[str, ...] = ()  # full multiaddrs
    observed: str = ""  # where it called from; proven, but rarely to be dialled
    answered_first: float = inf  # seconds; the first call it answered
    last_seen: float = -inf  # last time anything came from it
    tried: float = -inf  # last call
    retry: float = -inf  # not before
    failures: int = 0  # calls in a row
    given: bool = False  # named by this node's user, cache or LAN, not by gossip
    told: int = -1  # number of the last own announcement it has taken
    note: str = ""  # why it is of no use, for a person
    latency: float | None = None  # seconds until it answered the last exchange

    @property
    def answered(self) -> bool:
        return self.answered_first < inf

    @property
    def was_seen(self) -> bool:
        return self.last_seen > -inf


class Contacts:
    """Bounded. When full, whoever never answered goes first, then whoever has been silent longest."""

    def __init__(self) -> None:
        self._contacts: dict[PeerId, Contact] = {}
        self.anchors: tuple[PeerId, ...] = ()  # known longest, of those that still answer

    def __iter__(self) -> Iterator[Contact]:
        return iter(self._contacts.values())

    def get(self, peer: PeerId) -> Contact | None:
        """None where this peer is not known."""
        return self._contacts.get(peer)

    def learn(self, peer: PeerId, addresses: Sequence[str] = ()) -> Contact:
        """The contact, new if need be; addresses given replace those known."""
        contact = self._contacts.get(peer)
        if contact is None:
            contact = self._contacts[peer] = Contact(peer)
            if len(self._contacts) > MAX_CONTACTS:
                self._evict(peer)
        if addresses:
            contact.addresses = tuple(addresses)[: limits.MAX_ADDRESSES]
        return contact

    def announced(self, peer: PeerId, addresses: tuple[str, ...]) -> None:
        """Where a contact says it is now: remembered for when gossip has forgotten it."""
        contact = self._contacts.get(peer)
        if contact and addresses and not contact.given:
            contact.addresses = addresses

    def called(self, peer: PeerId, now: float) -> Contact:
        """Notes that a call to it begins."""
        contact = self.learn(peer)
        contact.tried = now
        return contact

    def answered(self, peer: PeerId, now: float) -> Contact:
        """Notes that it answered a call: its failures are forgotten."""
        contact = self.learn(peer)
        changed = not contact.answered or contact.failures >= 2
        contact.answered_first = min(contact.answered_first, now)
        contact.last_seen, contact.failures, contact.retry, contact.note = now, 0, -inf, ""
        if changed:
            self._choose_anchors()
        return contact

    def called_in(self, peer: PeerId, address: str, now: float) -> None:
        """It called: it is alive, and there is a connection to call it back on."""
        contact = self.learn(peer)
        contact.observed, contact.last_seen, contact.failures, contact.retry = address, now, 0, -inf

    def failed(self, peer: PeerId, now: float, pause: float = FIRST_RETRY) -> int:
        """Another call failed; how many now, in a row. It is left alone for `pause` seconds, doubled each time."""
        contact = self.learn(peer)
        contact.retry = now + backoff(contact.failures, pause, max(pause, MAX_RETRY))
        contact.failures += 1
        if contact.failures == 2:
            self._choose_anchors()
        return contact.failures

    def held(self, peer: PeerId, now: float) -> None:
        """None of its addresses may be dialled now. That is no failure of the peer, which may call by itself."""
        contact = self.learn(peer)
        contact.retry = max(contact.retry, now + HELD_PAUSE)

    def is_ready(self, peer: PeerId, now: float) -> bool:
        """Whether it may be called again after its failures."""
        contact = self._contacts.get(peer)
        return contact is None or now >= contact.retry

    def tried(self, peer: PeerId) -> float:
        """When it was called last."""
        contact = self._contacts.get(peer)
        return contact.tried if contact else -inf

    def _choose_anchors(self) -> None:
        steady = [contact for contact in self._contacts.values() if contact.answered and contact.failures < 2]
        steady.sort(key=lambda contact: contact.answered_first)
        self.anchors = tuple(contact.peer for contact in steady[:ANCHORS])

    def _evict(self, newcomer: PeerId) -> None:
        others = (contact for contact in self._contacts.values() if contact.peer != newcomer)
        worst = min(others, key=lambda c: (c.peer in self.anchors, c.answered, c.given, c.last_seen, c.tried))
        del self._contacts[worst.peer]
        if worst.peer in self.anchors:
            self._choose_anchors()
