"""Everything one node knows of the swarm, the few changes that concern several parts of it, and the
calls under way.

That includes what the node offers to others: one signed announcement at a time, and groups that
others may fetch.

Theory of operation
===================

The parts of the exchange decide, and `Knowledge` remembers. None of them holds a part of another;
what they have in common is here:

    gossip.py        fetching.py       answers.py         following.py
    whose news to    which groups to   what others get    the swarm's card,
    ask for, when    pull, from whom   when they ask      and who may enter
        |                |                 |                  |
        +----------------+--------+--------+------------------+
                                  v
                              Knowledge
        view                the newest announcement of each author    view.py
        contacts            how peers are reached, and if they answer
        sample              peers that others cannot push out
        reputation          pulls, charges and bans of each peer      peers.py
        store               groups that others may fetch here
        local_announcement  what this node says of itself
        asked               calls under way, by token
        outbox              actions to be done at the next opportunity

A call goes this way:

    call(PendingCall) ---> CallPeer ---> the runner dials and waits
        |                                   |
        | noted in `asked`                  |  Exchange.replied(token) or .failed(token)
        v                                   v
     overdue() -- no word in time --->  taken out of `asked`, and handed to the part that asked

What always holds:

- Of an author one announcement counts, that with the highest number. This node signs its own with a
  number that only grows, also when it finds that an earlier start of it was ahead (`overtake`).
- A call is in `asked` until its outcome is known or it is overdue. An outcome that comes later
  finds no call, and changes nothing.
- Who is banned or put out by the card leaves the view and the sample at once, and is disconnected
  (`hang_up`). Its reputation stays, so that a ban lasts.
- What is remembered is bounded: the view by its capacity, the store in rounds and bytes, tasks with
  other digests by MAX_OTHERS. No peer chooses the name of a counter.
"""

import math
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, islice
from random import Random

from protocol import codec, limits, wire
from protocol.admission import AdmissionRules
from protocol.identity import Identity
from protocol.messages import Announcement, Hello, PeerId, Question, RolloutGroup, Round
from protocol.versions import CURRENT
from swarm_node.common.lru import Lru
from swarm_node.network.access import Access
from swarm_node.network.actions import OTHER_ENVIRONMENT, SERVE_ROUNDS, Action, CallPeer, Disconnect
from swarm_node.network.exchange.peers import Contact, Contacts, Reputation, SampledPeers
from swarm_node.network.exchange.view import View, holding
from swarm_node.network.parties import full, is_public, network_of, trim

# A group is served at least so long, however quickly rounds pass: others learn of it late
MIN_SECONDS = 60.0
MAX_BYTES = 32 * 1024 * 1024  # of all envelopes; the oldest make room
REFRESH = 60.0  # seconds until a new announcement, a third of the time that others remember one
# Seconds
TIMEOUTS: Mapping[str, float] = {
    wire.EXCHANGE: 10.0,
    wire.PULL: 15.0,
    wire.HELLO: 8.0,
    wire.CARD: 10.0,
}
# Own groups whose downloads are counted, and peers that are counted for each
MAX_COUNTED_GROUPS, MAX_COUNTED_PEERS = 256, 1024
# Tasks with other digests that are remembered: their groups are not given to the trainer again
MAX_OTHERS = 1024
# The party of all authors that are not where they claim to be: claims are free
UNPROVEN = "unproven"
# Seconds past its timeout after which a call that the runner does not report counts as failed
OVERDUE = 5.0

_MAX_REPLIES: Mapping[str, int] = {  # bytes
    wire.EXCHANGE: limits.MAX_EXCHANGE_REPLY_BYTES,
    wire.PULL: limits.FRAME_HEADER_BYTES + limits.MAX_MESSAGE_BYTES,  # for each group
    wire.HELLO: limits.MAX_HELLO_BYTES,
    wire.CARD: limits.MAX_CARD_REPLY_BYTES,
}


def binding(question: Question) -> tuple[str, ...]:
    """The task of a question, and the digest of what its environment does."""
    return question.environment, question.dataset, question.config_id, question.digest


class LocalAnnouncement:
    """What this node says of itself: its addresses and its groups. Signed again when these
    change.
    """

    def __init__(self, identity: Identity, swarm: str, now: float) -> None:
        self._identity = identity
        self._swarm = swarm
        self._addresses: tuple[str, ...] = ()
        self._groups: tuple[str, ...] = ()
        self._held: tuple[str, ...] = ()
        self._round = Round(0)
        self.seq = -1  # number of the newest announcement
        self.sealed = b""
        self.made = now  # seconds
        self.outdated = True  # there is something new to say

    def published(self, round: Round, groups: Sequence[str]) -> None:
        """Notes the last round and the content hashes of its groups, as many as an announcement
        holds.
        """
        self._round = round
        self._groups = tuple(groups[: limits.MAX_ANNOUNCED_GROUPS])

    def reachable(self, addresses: Sequence[str]) -> None:
        """Notes this node's multiaddrs, best first."""
        before, self._addresses = self._addresses, trim(addresses, self._identity.peer_id)
        self.outdated = self.outdated or self._addresses != before

    def woke(self) -> None:
        """This node has slept, and may be elsewhere now: it names no address until `reachable` says
        one. The next tick announces anew.
        """
        self._addresses, self.outdated = (), True

    def renew(self, held: Sequence[str], now: float) -> None:
        """Called before an exchange, which then also tells what was fetched since the last
        announcement.
        """
        if self.sealed and tuple(held) != self._held:
            self.announce(held, now)

    def announce(self, held: Sequence[str], now: float) -> None:
        """Signs a new announcement. `held`: hints to external groups, as many as an announcement
        holds.
        """
        self._held = tuple(held)
        self.seq, self.made, self.outdated = min(self.seq + 1, limits.MAX_SEQUENCE), now, False
        announcement = Announcement(
            addresses=self._addresses,
            author=self._identity.peer_id,
            groups=self._groups,
            held=self._held,
            round=self._round,
            seq=self.seq,
        )
        self.sealed = codec.seal(announcement, self._identity, self._swarm)

    def overtake(self, seq: int) -> None:
        """Another announcement signed by this node has this number: the next one, made soon, gets a
        higher number.
        """
        self.seq, self.outdated = seq, True


@dataclass(frozen=True, slots=True)
class Held:
    """A group that others may fetch here."""

    envelope: bytes
    own: bool
    round: int  # rounds this node had published when it came in
    since: float  # seconds


class GroupStore:
    """The groups that others may fetch here, oldest first, bounded in rounds and bytes."""

    def __init__(self, rounds: int = SERVE_ROUNDS) -> None:
        """`rounds`: for how many rounds of this node a group stays available."""
        self._rounds = rounds
        self._held: dict[str, Held] = {}
        self._bytes = 0

    def __contains__(self, key: str) -> bool:
        return key in self._held

    def __len__(self) -> int:
        return len(self._held)

    def get(self, key: str) -> bytes:
        """The envelope of the group with this content hash, or b""."""
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
        """Drops the groups with these content hashes, where they are held."""
        for key in keys:
            if held := self._held.pop(key, None):
                self._bytes -= len(held.envelope)

    def expire(self, round: int, now: float) -> None:
        """Drops groups that are old both in rounds and in seconds."""
        oldest, before = round - self._rounds, now - MIN_SECONDS
        self.remove(
            [
                key
                for key, held in self._held.items()
                if held.round <= oldest and held.since < before
            ]
        )

    def external(self, count: int) -> list[str]:
        """Hashes of up to `count` external groups, the newest first."""
        return list(
            islice((key for key, held in reversed(self._held.items()) if not held.own), count)
        )


class Downloads:
    """Which peers fetched which of this node's own groups here: of the newest groups, and of each
    the first peers. A peer id costs nothing, so these are numbers for a person, and nothing else.
    """

    def __init__(self) -> None:
        self._by_group: Lru[str, set[PeerId]] = Lru(MAX_COUNTED_GROUPS)

    def published(self, key: str) -> None:
        """Counts from now on who fetches the group with this content hash."""
        self._by_group[key] = set()

    def fetched(self, key: str, peer: PeerId) -> None:
        """Notes that a peer fetched a group here. One that this node did not make is not
        counted.
        """
        peers = self._by_group.get(key)
        if peers is not None and len(peers) < MAX_COUNTED_PEERS:
            peers.add(peer)

    def counts(self, view: View) -> dict[str, int]:
        """Counts for each group how many nodes have it: those that fetched it here, and those that
        announce that others may fetch it from them.
        """
        hints: dict[str, set[PeerId]] = {}
        for entry in view:
            for hint in entry.announcement.held:
                hints.setdefault(hint, set()).add(entry.announcement.author)
        return {
            key: len(peers | hints.get(holding(key), set()))
            for key, peers in self._by_group.items()
        }


@dataclass(slots=True)
class Want:
    """Groups of one origin to fetch in one call, and the peers asked for them already."""

    round: int  # as counted by `Fetching`
    origin: PeerId
    keys: tuple[str, ...]  # content hashes, as announced
    asked: set[PeerId] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class PendingCall:
    """A call under way."""

    peer: PeerId
    protocol: str
    sent: float  # seconds
    news: int = 0  # announcements that its reply may bring
    seq: int = -1  # number of the own announcement that it carries, or of this node's card
    want: Want | None = None  # the groups it is for


@dataclass(slots=True)
class Knowledge:
    """What all parts of the exchange know, and share."""

    identity: Identity
    swarm: str
    rng: Random
    local_announcement: LocalAnnouncement
    sample: SampledPeers
    # What the trainer admits; None without a trainer: all that is genuine
    rules: AdmissionRules | None = None
    store: GroupStore = field(default_factory=GroupStore)
    downloads: Downloads = field(default_factory=Downloads)
    view: View = field(default_factory=View)
    contacts: Contacts = field(default_factory=Contacts)
    reputation: Reputation = field(default_factory=Reputation)
    counters: Counter[str] = field(default_factory=Counter)
    access: Access = field(default_factory=Access)  # the lists of this node's user
    # See `estranged`
    others: deque[tuple[str, ...]] = field(default_factory=lambda: deque(maxlen=MAX_OTHERS))
    revoked: frozenset[PeerId] = frozenset()  # peers that the card puts out
    outbox: list[Action] = field(default_factory=list)  # to be done at the next opportunity
    asked: dict[int, PendingCall] = field(default_factory=dict)  # calls under way, by token
    tokens: Iterator[int] = field(default_factory=lambda: count(1))

    def differs(self, question: Question) -> bool:
        """Whether this node's environment differs on this question, as the trainer has found or the
        card says.
        """
        return binding(question) in self.others or (
            self.rules is not None and self.rules.differs(question)
        )

    def estranged(self, key: str) -> None:
        """Notes that the trainer has built the digest of this group's task, and that it differs
        from the group's.
        """
        group = codec.peek(self.store.get(key), RolloutGroup)
        if isinstance(group, RolloutGroup):
            self.others.append(binding(group.question))
            self.not_understood(group, OTHER_ENVIRONMENT)

    def not_understood(self, group: RolloutGroup, reason: str) -> None:
        """Notes, for the user, a question that this node cannot rebuild, or makes otherwise than
        its author.
        """
        asked = group.question
        task = f"{asked.dataset}/{asked.config_id}"
        # A task that this node knows, so that no peer names counters
        if reason == OTHER_ENVIRONMENT:
            self.counters[f"{reason}: {task}"] += 1
        self.reputation.authored(
            group.author, asks=f"{task} of {asked.environment} {asked.version} ({reason})"
        )

    def steady(self) -> frozenset[PeerId]:
        """Peers that others cannot push out: known for longest, or sampled."""
        return self.sample.peers.union(self.contacts.anchors)

    def party(self, author: PeerId, source: PeerId | None = None) -> str:
        """The party in which an author counts where groups are shared out: the public network that
        it was met in, or itself on a local one. A peer can claim an address that is not its own.
        So the groups that `source` serves count for the network that their author claims only if
        `source` is the author, or was met in that network itself. All other authors are one party.
        Without `source` nothing is fetched yet, and a claim counts until a call there has failed.
        """
        contact, entry = self.contacts.get(author), self.view.get(author)
        observed = network_of(contact.observed) if contact else ""
        if is_public(observed):
            return observed
        if observed:
            return author
        claimed = entry.network if entry else ""
        if not is_public(claimed):
            return UNPROVEN
        if source is None:
            failed = contact is not None and contact.failures > 0
            return UNPROVEN if failed else claimed
        return claimed if source == author or self.party(source) == claimed else UNPROVEN

    def is_proven(self, author: PeerId) -> bool:
        """Whether it is known where this author is: it was met there, or could not be reached."""
        contact = self.contacts.get(author)
        return contact is not None and bool(contact.observed or contact.failures)

    def charge(self, peer: PeerId, points: float, now: float, why: str) -> None:
        """Charges a peer with points of guilt, and notes why; enough of them ban it."""
        if self.reputation.charge(peer, points, now, why):
            self.hang_up(peer)

    def ban(self, peer: PeerId, now: float, why: str) -> None:
        """Bans a peer for a while, and disconnects it."""
        self.reputation.ban(peer, now, why=why)
        self.hang_up(peer)

    def shuns(self, peer: PeerId, now: float) -> bool:
        """Whether to avoid this peer: it is banned, revoked, or blocked by the lists of this node's
        user.
        """
        return (
            self.reputation.is_banned(peer, now)
            or peer in self.revoked
            or not self.access.peer(peer)
        )

    def hang_up(self, peer: PeerId, why: str = "bans") -> None:
        """Disconnects a peer, counts why, and forgets what it announced."""
        self.counters[why] += 1
        self.view.remove(peer)
        self.sample.drop(peer)
        self.outbox.append(Disconnect(peer))

    def holdings(self) -> list[str]:
        """Hints to the external groups that an announcement names."""
        return [holding(key) for key in self.store.external(limits.MAX_ANNOUNCED_HOLDINGS)]

    def mismatch(self, hello: Hello) -> str:
        """Why the node with this hello and this one cannot share, for a person; "" if they can."""
        if CURRENT.number not in hello.versions:
            theirs = ", ".join(map(str, hello.versions))
            return f"speaks protocol version {theirs}, this node speaks {CURRENT.number}"
        if hello.swarm != self.swarm:
            return f"is in swarm {hello.swarm}, this node is in {self.swarm}"
        return ""

    def call(self, asked: PendingCall, request: bytes) -> CallPeer:
        """The action that makes this call. It dials the addresses that the peer announced, then
        those known before.
        """
        self.counters[f"{wire.NAMES[asked.protocol]} bytes out"] += len(request)
        token = next(self.tokens)
        self.asked[token] = asked
        contact = self.contacts.called(asked.peer, asked.sent)
        entry = self.view.get(asked.peer)
        announced = full(entry.announcement.addresses, asked.peer) if entry else ()
        self.contacts.announced(asked.peer, announced)
        most = _MAX_REPLIES[asked.protocol] * (len(asked.want.keys) if asked.want else 1)
        return CallPeer(
            token=token,
            peer=asked.peer,
            addresses=tuple(dict.fromkeys(announced + contact.addresses)),
            protocol=asked.protocol,
            request=request,
            # The peer leaves out groups that do not fit
            max_reply=min(most, limits.MAX_PULL_REPLY_BYTES),
            timeout=TIMEOUTS[asked.protocol],
        )

    def overdue(self, now: float) -> list[int]:
        """Tokens of calls whose outcome the runner has not reported in time."""
        return [
            token
            for token, asked in self.asked.items()
            if now - asked.sent > TIMEOUTS[asked.protocol] + OVERDUE
        ]

    def wants(self) -> list[Want]:
        """The groups being fetched."""
        return [asked.want for asked in self.asked.values() if asked.want]

    def busy(self, *protocols: str) -> list[PeerId]:
        """The peers to which calls of these protocols are under way."""
        return [asked.peer for asked in self.asked.values() if asked.protocol in protocols]


@dataclass(frozen=True, slots=True)
class PeerView:
    """A peer as this node knows it."""

    peer: PeerId
    addresses: tuple[str, ...]  # full multiaddrs, to dial it
    # Seconds since anything came from it directly; None: only named by others
    last_seen: float | None
    answered: float | None  # seconds since it answered for the first time; None: it never has
    announced: float | None  # seconds since it made its newest announcement; None: none known
    round: int | None  # its own count, from that announcement
    success: float  # moving average of pulls from it, 0 to 1
    pulls: int
    guilt: float  # points, see peers.py
    state: str  # "ok", "quarantined", "banned" or "blocked"
    faults: dict[str, int]  # reason -> how often it was charged, since this node has known it
    served: int  # groups that it fetched from this node
    authored: int  # groups by it that this node took in, from any peer
    asks: str  # the question of its last group, where this node cannot rebuild it; "" where it can
    note: str  # why there is nothing to share, e.g. another protocol version; "" if there is
    # Seconds until it answered the last exchange; None where it was not asked
    latency: float | None
    behind: bool  # whether it has not taken the newer card that this node gave it


def peer_views(knowledge: Knowledge, now: float) -> list[PeerView]:
    """Everybody known, those seen directly first."""
    contacts = {contact.peer: contact for contact in knowledge.contacts}
    names = dict.fromkeys([*contacts, *(entry.announcement.author for entry in knowledge.view)])
    views = [_view(knowledge, name, contacts.get(name) or Contact(name), now) for name in names]
    return sorted(
        views, key=lambda view: (view.last_seen is None, view.last_seen or 0.0, view.peer)
    )


def _view(knowledge: Knowledge, peer: PeerId, contact: Contact, now: float) -> PeerView:
    entry = knowledge.view.get(peer)
    record = knowledge.reputation.of(peer)
    announced = full(entry.announcement.addresses, peer) if entry else ()
    return PeerView(
        peer=peer,
        addresses=announced or contact.addresses,
        last_seen=now - contact.last_seen if math.isfinite(contact.last_seen) else None,
        answered=now - contact.answered_first if contact.answered else None,
        announced=now - entry.made if entry else None,
        round=entry.announcement.round if entry else None,
        success=record.success,
        pulls=record.pulls,
        guilt=record.guilt_at(now),
        state=knowledge.reputation.state(peer, now) if knowledge.access.peer(peer) else "blocked",
        faults=dict(record.faults),
        served=record.served,
        authored=record.authored,
        asks=record.asks,
        note=contact.note,
        latency=contact.latency,
        behind=contact.behind,
    )
