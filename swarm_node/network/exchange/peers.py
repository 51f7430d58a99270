"""What this node itself knows of each peer: how to call it, whether others can push it out, and its
reputation.

A peer that has ever answered is kept longer than one that was only named: after a partition, or
when all peers in the view are hostile, it is the way back. Opinions of peers are never gossiped, as
opinions of others would be one more attack. A node keeps two. Serving: whether pulls from a peer
succeed, a moving average by which peers are chosen. Guilt: points for what a peer signed or served,
halved every ten minutes; enough of them quarantine a peer (its groups are not pulled) and more ban
it (it is disconnected).
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from math import inf
from random import Random

from protocol import limits
from protocol.messages import PeerId, Reason
from swarm_node.common.backoff import backoff
from swarm_node.network.actions import UNINFORMATIVE, USEFUL
from swarm_node.network.parties import is_public, network_of

MAX_CONTACTS = 512
FIRST_RETRY = 5.0  # seconds after a failed call; doubles with every further one
MAX_RETRY = 60.0
HELD_PAUSE = 20.0  # seconds until a peer that may not be dialled now is considered again
# Peers known longest that still answer, half of a view: gossip does not push them out, and whoever
# comes later, however loud and in however many networks, does not either
ANCHORS = 32
ANCHORS_OF_NETWORK = 2  # at most, on the internet


@dataclass(slots=True)
class Contact:
    """What is known of a peer that may be called."""

    peer: PeerId
    addresses: tuple[str, ...] = ()  # full multiaddrs
    observed: str = ""  # where it called from; proven, but rarely to be dialled
    answered_first: float = inf  # seconds, when it first answered a call
    last_seen: float = -inf  # seconds, when anything last came from it
    tried: float = -inf  # seconds, when it was last called
    retry: float = -inf  # seconds; it is not called before
    failures: int = 0  # failed calls in a row
    # Its place among the peers that an earlier run remembered; inf for all others
    remembered: float = inf
    given: bool = False  # named by this node's user, cache or LAN, not by gossip
    told: int = -1  # number of the last own announcement it has taken
    note: str = ""  # why it has nothing to share, for a person
    latency: float | None = None  # seconds until it answered the last exchange
    offered: int = 0  # number of the newest card that it was given here
    behind: bool = False  # whether it asked with an older card after that

    @property
    def answered(self) -> bool:
        return self.answered_first < inf

    @property
    def network(self) -> str:
        """The network of addresses that it was met in, else that of its first address."""
        address = self.observed or next(iter(self.addresses), "")
        return network_of(address)


class Contacts:
    """Bounded. When full, peers that never answered go first, then those silent for longest."""

    def __init__(self) -> None:
        self._contacts: dict[PeerId, Contact] = {}
        self.anchors: tuple[PeerId, ...] = ()  # known longest, of those that still answer

    def __iter__(self) -> Iterator[Contact]:
        return iter(self._contacts.values())

    def get(self, peer: PeerId) -> Contact | None:
        """The contact of this peer; None if the peer is not known."""
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

    def remember(self, peers: Mapping[PeerId, Sequence[str]]) -> None:
        """Notes peers that an earlier run knew longest, in this order, with their addresses. Peers
        that answer again become anchors before all peers that are met in this run.
        """
        for place, (peer, addresses) in enumerate(peers.items()):
            self.learn(peer, addresses).remembered = place

    def announced(self, peer: PeerId, addresses: tuple[str, ...]) -> None:
        """Notes the addresses that a contact announces, for when gossip has forgotten it."""
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

    def met(self, peer: PeerId, address: str) -> None:
        """Notes the address at the other end of a connection to this peer, which proves it; one
        through a relay only while no other is known.
        """
        contact = self._contacts.get(peer)
        if contact is not None and not (contact.observed and "/p2p-circuit" in address):
            contact.observed = address

    def called_in(self, peer: PeerId, address: str, now: float) -> None:
        """Notes that a peer called: it is alive, and its connection serves to call it back."""
        contact = self.learn(peer)
        contact.observed, contact.last_seen, contact.failures, contact.retry = address, now, 0, -inf

    def failed(self, peer: PeerId, now: float, pause: float = FIRST_RETRY) -> int:
        """Notes a failed call; returns how many in a row. The peer rests for `pause` seconds,
        doubled each time.
        """
        contact = self.learn(peer)
        contact.retry = now + backoff(contact.failures, pause, max(pause, MAX_RETRY))
        contact.failures += 1
        if contact.failures == 2:
            self._choose_anchors()
        return contact.failures

    def held(self, peer: PeerId, now: float) -> None:
        """Notes that no address of a peer may be dialled now. That is no failure: the peer may call
        by itself.
        """
        contact = self.learn(peer)
        contact.retry = max(contact.retry, now + HELD_PAUSE)

    def woke(self) -> None:
        """Forgets failed calls after this node has slept, since they say nothing about now. Only
        the peers that have nothing to share with this node are still left alone.
        """
        for contact in self._contacts.values():
            if not contact.note:
                contact.failures, contact.retry, contact.tried = 0, -inf, -inf

    def is_ready(self, peer: PeerId, now: float) -> bool:
        """Whether it may be called again after its failures."""
        contact = self._contacts.get(peer)
        return contact is None or now >= contact.retry

    def has_answered(self, peer: PeerId) -> bool:
        """Whether this peer ever answered a call."""
        contact = self._contacts.get(peer)
        return contact is not None and contact.answered

    def tried(self, peer: PeerId) -> float:
        """When this peer was called last, in seconds."""
        contact = self._contacts.get(peer)
        return contact.tried if contact else -inf

    def _choose_anchors(self) -> None:
        steady = [
            contact
            for contact in self._contacts.values()
            if contact.answered and contact.failures < 2
        ]
        steady.sort(key=lambda contact: (contact.remembered, contact.answered_first))
        of_network: Counter[str] = Counter()
        anchors = list[PeerId]()
        for contact in steady:
            network = contact.network
            of_network[network] += 1
            if not is_public(network) or of_network[network] <= ANCHORS_OF_NETWORK:
                anchors.append(contact.peer)
        self.anchors = tuple(anchors[:ANCHORS])

    def _evict(self, newcomer: PeerId) -> None:
        others = (contact for contact in self._contacts.values() if contact.peer != newcomer)
        worst = min(
            others,
            key=lambda c: (
                c.peer in self.anchors,
                c.answered or (c.remembered < inf and not c.failures),
                c.given,
                c.last_seen,
                c.tried,
            ),
        )
        del self._contacts[worst.peer]
        if worst.peer in self.anchors:
            self._choose_anchors()


SLOTS = 24


class SampledPeers:
    """Up to `SLOTS` peers that others cannot push out. A slot keeps the peer whose network hashes
    lowest.
    """

    def __init__(self, rng: Random) -> None:
        self._secrets = [rng.randbytes(16) for _ in range(SLOTS)]
        self._slots: list[tuple[bytes, PeerId]] = [(b"\xff" * 9, PeerId("")) for _ in range(SLOTS)]
        self.peers: frozenset[PeerId] = frozenset()

    def offer(self, peer: PeerId, network: str) -> None:
        """Offers a peer that was met to all slots. Of one network the first stays, as long as it
        replies.
        """
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
        """Frees the slots of a peer that is gone or disconnected."""
        if peer in self.peers:
            self._slots = [
                (b"\xff" * 9, PeerId("")) if name == peer else (key, name)
                for key, name in self._slots
            ]
            self._count()

    def _count(self) -> None:
        self.peers = frozenset(peer for _, peer in self._slots if peer)


MAX_PEERS = 4096
BAN_SECONDS = 3600.0
HALF_LIFE = 600.0  # seconds until guilt has halved
QUARANTINE = 3.0  # points
BAN = 8.0
EWMA = 0.2  # weight of the newest pull

# Points for what the trainer's side found in an authentic group. What can happen to an honest peer,
# such as another version or other settings, costs few points or none; a forged address of a
# question costs many.
POINTS: Mapping[str, float] = {
    USEFUL: -1.0,
    UNINFORMATIVE: 0.0,
    Reason.WRONG_SEED: 4.0,
    Reason.LOCAL_MESSAGE: 0.0,
    Reason.TOO_MANY_EPISODES: 1.0,
    Reason.EPISODE_TOO_LONG: 1.0,
    Reason.SEVERAL_TURNS: 0.0,  # the author's node supports more turns than this one
    Reason.UNKNOWN_QUESTION: 1.0,
    Reason.OTHER_ENVIRONMENT: 0.0,  # nobody can tell which of the two nodes is wrong
    "diverged": 0.0,  # the same
    "slow question": 0.0,  # its author cannot know this machine
    "slow question sought out": 1.0,
    "scorer raised": 0.0,  # a mistake in the scorer, not in what it scored
    "not a score": 0.0,
}
# Reasons that begin so are no peer's fault: all groups of a round get them
OURS = "environment raised "
# Anything else it could not use: a scorer that hung, a question that could not be built
OTHER_POINTS = 1.0
BAD_REPLY_POINTS = 2.0  # an answer that no peer following the protocol gives


def points(outcome: str) -> float:
    """The points of guilt for what the trainer's side found in a group."""
    return 0.0 if outcome.startswith(OURS) else POINTS.get(outcome, OTHER_POINTS)


@dataclass(slots=True)
class PeerStanding:
    """The reputation of one peer."""

    # Moving average over pulls, 0 to 1; a new peer has the benefit of the doubt
    success: float = 1.0
    pulls: int = 0
    guilt: float = 0.0  # points, as of `scored`
    scored: float = 0.0  # seconds
    banned_until: float = float("-inf")  # seconds
    faults: dict[str, int] = field(default_factory=dict)  # how often it was charged, by reason
    served: int = 0  # groups that it fetched from this node
    authored: int = 0  # groups by it that this node admitted
    asks: str = ""  # the question of its last group, where this node cannot rebuild it

    def guilt_at(self, now: float) -> float:
        """Points, of which half are forgiven every `HALF_LIFE`."""
        return self.guilt * math.exp2((self.scored - now) / HALF_LIFE)


_STRANGER = PeerStanding()


class Reputation:
    """Records of the peers dealt with most recently."""

    def __init__(self) -> None:
        self._records: dict[PeerId, PeerStanding] = {}

    def of(self, peer: PeerId) -> PeerStanding:
        """The record of a peer, for reading only; that of a stranger where nothing is known."""
        return self._records.get(peer, _STRANGER)

    def pulled(self, peer: PeerId, success: bool) -> None:
        """Notes how a pull from it went."""
        record = self._touch(peer)
        record.pulls += 1
        record.success += EWMA * (success - record.success)

    def served(self, peer: PeerId, groups: int) -> None:
        """Notes that it fetched groups here."""
        if groups:
            self._touch(peer).served += groups

    def authored(self, peer: PeerId, asks: str = "") -> None:
        """Notes that a group by this peer was admitted, or refused as it `asks` what this node
        cannot rebuild.
        """
        record = self._touch(peer)
        record.authored, record.asks = record.authored + (not asks), asks

    def charge(self, peer: PeerId, points: float, now: float, why: str) -> bool:
        """Adds points of guilt, or takes some off. Whether the peer is banned by that."""
        record = self._touch(peer)
        if points > 0:
            record.faults[why] = record.faults.get(why, 0) + 1
        record.guilt, record.scored = max(0.0, record.guilt_at(now) + points), now
        if record.guilt < BAN or self.is_banned(peer, now):
            return False
        self.ban(peer, now)
        return True

    def ban(self, peer: PeerId, now: float, seconds: float = BAN_SECONDS, why: str = "") -> None:
        """Bans a peer from `now` on, for so many seconds; `why` is counted among its faults."""
        record = self._touch(peer)
        record.banned_until = now + seconds
        if why:
            record.faults[why] = record.faults.get(why, 0) + 1

    def is_banned(self, peer: PeerId, now: float) -> bool:
        """Whether a ban of it still runs."""
        return now < self.of(peer).banned_until

    def is_trusted(self, peer: PeerId, now: float) -> bool:
        """Whether this peer is neither banned nor in quarantine."""
        record = self.of(peer)
        return now >= record.banned_until and record.guilt_at(now) < QUARANTINE

    def state(self, peer: PeerId, now: float) -> str:
        """The state of a peer in one word: ok, quarantined or banned."""
        if self.is_banned(peer, now):
            return "banned"
        return "ok" if self.is_trusted(peer, now) else "quarantined"

    def bans(self, now: float) -> dict[PeerId, float]:
        """Seconds each ban has yet to run."""
        return {
            peer: record.banned_until - now
            for peer, record in self._records.items()
            if record.banned_until > now
        }

    def _touch(self, peer: PeerId) -> PeerStanding:
        record = self._records.pop(peer, None) or PeerStanding()
        self._records[peer] = record
        if len(self._records) > MAX_PEERS:
            # Of the oldest, the least guilty goes first, so that minting identities frees no
            # culprit.
            oldest = list(self._records)[: MAX_PEERS // 8]
            del self._records[
                min(oldest, key=lambda peer: (self.of(peer).banned_until, self.of(peer).guilt))
            ]
        return record
