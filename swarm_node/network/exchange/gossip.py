"""Gossip: with which peers to exchange announcements, when, and how many to ask for; and taking
announcements in.

Each announcement that comes is news for the view, or is refused for a counted reason. Cheap checks
come first.
"""

import math
from enum import StrEnum
from itertools import islice, zip_longest

from protocol import codec, limits, wire
from protocol.messages import Announcement, PeerId, Rejected
from swarm_node.network.actions import Action
from swarm_node.network.backend import Failure
from swarm_node.network.exchange.knowledge import REFRESH, Knowledge, PendingCall
from swarm_node.network.exchange.peers import ANCHORS, BAD_REPLY_POINTS, Contact
from swarm_node.network.exchange.view import CAPACITY, MAX_AGE, HeardAnnouncement, by_network
from swarm_node.network.parties import fair_sample, full, in_turn, is_public, network_of

OVERTAKEN = (
    "own announcements newer than ours: lost memory, or two nodes with one identity"  # counter
)


class Reception(StrEnum):
    """What becomes of an announcement. Values are names of counters."""

    NEWS = "announcements received"
    KNOWN = "announcements known already"
    OLD = "announcements too old"
    JUMP = "announcements with a number far too high"
    OWN = "own announcements received"
    BANNED = "announcements of banned or blocked peers"
    # Only this is the carrier's fault: it should have checked
    FORGED = "announcements forged or malformed"


def receive(
    knowledge: Knowledge,
    sealed: bytes,
    source: PeerId,
    made: float,
    now: float,
    pushed: bool = False,
) -> Reception:
    """Takes in an announcement that `source` makes or carries. `made`: when its author made it, on
    this node's clock. `pushed`: this node had not asked for it.
    """
    announcement = codec.peek(sealed, Announcement)
    if isinstance(announcement, Rejected):
        knowledge.counters[f"announcement {announcement.reason}"] += 1
        verdict = Reception.FORGED
    else:
        verdict = _objection(knowledge, announcement, sealed, made, now) or Reception.NEWS
        if verdict is Reception.NEWS:
            _take_in(knowledge, announcement, sealed, source, min(made, now), now, pushed)
    knowledge.counters[verdict] += 1
    return verdict


def _take_in(
    knowledge: Knowledge,
    announcement: Announcement,
    sealed: bytes,
    source: PeerId,
    made: float,
    now: float,
    pushed: bool,
) -> None:
    author = announcement.author
    network = _network(knowledge, announcement)
    before = knowledge.view.get(author)
    pushed = pushed and (before is None or before.pushed)
    entry = HeardAnnouncement(
        announcement, sealed, wire.key_tag(author), made, source, network, pushed
    )
    knowledge.sample.offer(author, network)
    knowledge.view.add(entry, now, knowledge.steady())
    knowledge.contacts.announced(author, full(announcement.addresses, author))


def _objection(
    knowledge: Knowledge, announcement: Announcement, sealed: bytes, made: float, now: float
) -> Reception | None:
    if announcement.author == knowledge.identity.peer_id:
        return _receive_own(knowledge, announcement, sealed)
    if not knowledge.view.is_news(announcement, now):
        return Reception.KNOWN
    if now - made > MAX_AGE:
        return Reception.OLD
    if knowledge.shuns(announcement.author, now) or not all(
        map(knowledge.access.address, announcement.addresses)
    ):
        return Reception.BANNED
    if knowledge.view.is_jump(announcement, now):
        return Reception.JUMP
    return Reception.FORGED if _is_forged(knowledge, announcement, sealed) else None


def _receive_own(knowledge: Knowledge, announcement: Announcement, sealed: bytes) -> Reception:
    """A number not below this node's newest one dates from before a crash, or is of another node
    with the same key.
    """
    local_announcement = knowledge.local_announcement
    if announcement.seq >= local_announcement.seq and sealed != local_announcement.sealed:
        if _is_forged(knowledge, announcement, sealed):
            return Reception.FORGED
        knowledge.counters[OVERTAKEN] += 1
        local_announcement.overtake(announcement.seq)
    return Reception.OWN


def _is_forged(knowledge: Knowledge, announcement: Announcement, sealed: bytes) -> bool:
    if objection := codec.objection(sealed, announcement, knowledge.swarm):
        knowledge.counters[f"announcement {objection}"] += 1
    return objection is not None


def _network(knowledge: Knowledge, announcement: Announcement) -> str:
    """The network that its author called from, which is proven, if that is public; else that of its
    first address.
    """
    contact = knowledge.contacts.get(announcement.author)
    observed = network_of(contact.observed) if contact else ""
    claimed = network_of(announcement.addresses[0]) if announcement.addresses else ""
    return observed if is_public(observed) or not claimed else claimed


FANOUT = 2  # peers told of a new announcement at once
RETRIES = 2  # other peers called instead, per announcement, when a call fails
MIN_NEWS = 8  # announcements asked for, at most, per announcement of this node: so many ...
NEWS_PER_WANT = 3  # ... or so many for each group wanted
SMALL_VIEW = 8  # announcements; with fewer a node asks for all it can get
STEADY_SHARE = 0.5  # of exchanges go to a steady peer, which others cannot push out
KEPT = 4  # steady peers that are asked for their announcements, at the time of each exchange
OLD = 90.0  # seconds since an announcement was made, after which its steady author is asked
LONELY_AFTER = 3  # failed exchanges in a row make a node lonely
LONELY_CALLS = 4  # calls of a lonely node at the same time
LONELY_PAUSE = 2.0  # seconds between two calls of a lonely node to one peer
FULL_PROBES = 1 / 3  # of the calls to lost peers are made while the view is full
LOST_PAUSE = 10.0  # seconds between two calls of a peer that gossip no longer names
INCOMPATIBLE_PAUSE = 600.0  # seconds until a peer of another version or swarm is asked again


class Gossip:
    """Exchanges announcements with one peer after another."""

    def __init__(self, knowledge: Knowledge, every: float, now: float) -> None:
        """`every`: seconds between two exchanges while a round lasts."""
        self._knowledge = knowledge
        self._every = every
        self._tag = wire.swarm_tag(knowledge.swarm)
        self._appetite = MIN_NEWS  # announcements asked for per announcement of this node
        self._news = MIN_NEWS  # announcements that may still be asked for
        self._retries = RETRIES
        self._next = now  # seconds, when the next exchange is due
        self._unanswered = 0  # exchanges in a row that failed

    def announce(self, now: float, want: int | None = None) -> list[Action]:
        """Announce anew what this node has, and ask for as many announcements as a round that wants
        `want` groups can use.
        """
        if want is not None:
            self._appetite = max(MIN_NEWS, NEWS_PER_WANT * want)
        self._knowledge.local_announcement.announce(self._knowledge.holdings(), now)
        self._news, self._retries = self._appetite, RETRIES
        return self._spread(FANOUT, now)

    def tick(self, now: float) -> list[Action]:
        """The calls that are due."""
        self._knowledge.view.expire(now)
        local_announcement = self._knowledge.local_announcement
        stale = local_announcement.outdated or now - local_announcement.made >= REFRESH
        if stale and (actions := self.announce(now)):
            return actions
        due = now >= self._next
        if due:
            self._next = now + self._every * self._knowledge.rng.uniform(0.8, 1.2)
        if not len(self._knowledge.view) or self._unanswered >= LONELY_AFTER:
            return self._seek(now)
        if not due:
            return []
        return self._spread(1 if self._news > 0 else 0, now) + self._keep(now) + self._probe(now)

    def woke(self, now: float) -> None:
        """This node has slept: it is as lonely as before its failures, and the next exchange is
        due.
        """
        self._unanswered, self._retries, self._next = 0, RETRIES, now
        self._news = self._appetite

    def replied(self, asked: PendingCall, reply: bytes, now: float) -> None:
        """Takes in the announcements of a reply; one that breaks the rules is charged to its
        sender.
        """
        self._unanswered = 0
        self._news += asked.news
        self._knowledge.contacts.answered(asked.peer, now).told = asked.seq
        items = wire.decode_items(reply)
        if isinstance(items, Rejected) or len(items) > asked.news:
            self._knowledge.counters["exchange malformed"] += 1
            self._knowledge.charge(asked.peer, BAD_REPLY_POINTS, now, "exchange malformed")
            return
        for item in items:
            # Its age counts from when this node asked: the reply's time on the way only makes it
            # older.
            verdict = receive(
                self._knowledge, item.sealed, asked.peer, asked.sent - item.age / 10, now
            )
            self._news -= verdict is Reception.NEWS
            if verdict is Reception.FORGED:
                self._knowledge.charge(
                    asked.peer, BAD_REPLY_POINTS, now, "carried a forged announcement"
                )
                break  # one forgery costs one verification: the rest is not looked at

    def failed(self, asked: PendingCall, failure: Failure, now: float) -> list[Action]:
        """A stranger that refuses is asked who it is; else another peer is called."""
        self._news += asked.news
        if failure == Failure.HELD:  # nobody was called
            return self._spread(1, now)
        self._unanswered += 1
        strange = failure in (Failure.UNSUPPORTED, Failure.REFUSED)
        if strange and not self._knowledge.contacts.learn(asked.peer).answered:
            hello = wire.encode_hello(self._knowledge.swarm)
            return [self._knowledge.call(PendingCall(asked.peer, wire.HELLO, now), hello)]
        if not self._retries:
            return []
        self._retries -= 1
        return self._spread(1, now)

    def introduced(self, asked: PendingCall, reply: bytes, now: float) -> None:
        """Takes the reply to a hello: notes, for a person, why the two nodes have nothing to share,
        if so.
        """
        hello = wire.decode_hello(reply)
        if isinstance(hello, Rejected):
            self._knowledge.charge(asked.peer, BAD_REPLY_POINTS, now, "hello malformed")
            return
        if note := self._knowledge.mismatch(hello):
            self._knowledge.counters["peers of another version or swarm"] += 1
            self._knowledge.contacts.failed(asked.peer, now, INCOMPATIBLE_PAUSE)
        self._knowledge.contacts.learn(asked.peer).note = note

    def _spread(self, count: int, now: float) -> list[Action]:
        """Exchanges with `count` peers of the view; in half of the cases a steady peer takes the
        place of the first.
        """
        busy = self._knowledge.busy(wire.EXCHANGE)
        view = self._knowledge.view
        order = fair_sample(list(view), len(view) if count else 0, by_network, self._knowledge.rng)
        authors = (entry.announcement.author for entry in order)
        peers = list(
            islice(
                (peer for peer in authors if peer not in busy and self._may_call(peer, now)), count
            )
        )
        steady = sorted(self._knowledge.steady().difference(peers, busy))
        others = [peer for peer in steady if self._may_call(peer, now)]
        if peers and others and self._knowledge.rng.random() < STEADY_SHARE:
            # In turn, before their announcements expire
            peers[0] = min(others, key=self._knowledge.contacts.tried)
        share = math.ceil(self._news / max(1, len(peers)))
        return [self._exchange(peer, share, now) for peer in peers]

    def _seek(self, now: float) -> list[Action]:
        """When nobody answers: calls all known peers in turn, several at once, so that dead ones
        cost no time.
        """
        room = LONELY_CALLS - len(self._knowledge.busy(wire.EXCHANGE, wire.HELLO))
        return [
            self._exchange(contact.peer, MIN_NEWS, now)
            for contact in self._neglected(LONELY_PAUSE, now)[: max(0, room)]
        ]

    def _keep(self, now: float) -> list[Action]:
        """Asks some steady peers whose announcements are old or not in the view for their own
        ones. So they stay in the view although others say nothing of them. Peers that an earlier
        run knew are asked once, and others where this node knows too few.
        """
        busy, view = self._knowledge.busy(wire.EXCHANGE), self._knowledge.view

        def is_old(peer: PeerId) -> bool:
            entry = view.get(peer)
            return entry is None or now - entry.made >= OLD

        asked = {
            contact.peer
            for contact in self._knowledge.contacts
            if contact.remembered < math.inf and contact.tried == -math.inf
        }
        asked.update(filter(is_old, self._knowledge.steady()))
        able = [peer for peer in sorted(asked.difference(busy)) if self._may_call(peer, now)]
        able.sort(key=self._knowledge.contacts.tried)
        feelers = self._feelers(KEPT - len(able), now) if len(able) < KEPT else []
        return [self._ask_for_its_own(peer, now) for peer in [*able[:KEPT], *feelers]]

    def _feelers(self, count: int, now: float) -> list[PeerId]:
        """Peers of the view that have never answered this node, drawn by networks, while it has
        fewer anchors than it may have. It finds out itself who is there, as early as it can: who
        answers now is known longer than all who come later.
        """
        knowledge = self._knowledge
        if len(knowledge.contacts.anchors) >= ANCHORS:
            return []
        busy = knowledge.busy(wire.EXCHANGE)
        unknown = [
            entry
            for entry in knowledge.view
            if not knowledge.contacts.has_answered(entry.announcement.author)
            and entry.announcement.author not in busy
            and self._may_call(entry.announcement.author, now)
        ]
        drawn = in_turn(unknown, count, by_network, knowledge.rng)
        return [entry.announcement.author for entry in drawn]

    def _ask_for_its_own(self, peer: PeerId, now: float) -> Action:
        """The call that asks a peer for its own announcement alone. It says nothing of this node,
        and is the shortest there is.
        """
        request = wire.ExchangeRequest(self._tag, 1, {}, b"")
        asked = PendingCall(
            peer, wire.EXCHANGE, now, news=1, seq=self._knowledge.contacts.learn(peer).told
        )
        self._news -= 1
        return self._knowledge.call(asked, wire.encode_exchange(request))

    def _probe(self, now: float) -> list[Action]:
        """Calls a peer that is not in the view: a bootstrap node, or one behind a partition that
        may have healed.
        """
        if len(self._knowledge.view) >= CAPACITY and self._knowledge.rng.random() > FULL_PROBES:
            # A large swarm: gossip names only a sample, and many nodes look for lost peers
            return []
        lost = [
            contact
            for contact in self._neglected(LOST_PAUSE, now)
            if contact.peer not in self._knowledge.view
        ]
        return [self._exchange(contact.peer, 1, now) for contact in lost[:1]]

    def _neglected(self, pause: float, now: float) -> list[Contact]:
        """Contacts not called for `pause` seconds, the longest first. Contacts that have answered
        or that the user gave alternate with the others, of which anybody can make many.
        """
        busy = self._knowledge.busy(wire.EXCHANGE, wire.HELLO)
        able = [
            contact
            for contact in self._knowledge.contacts
            if now - contact.tried >= pause
            and contact.peer not in busy
            and not (contact.note and now < contact.retry)
            and not self._knowledge.shuns(contact.peer, now)
        ]
        # Of those not called since this node woke, whom it heard from last is likeliest there
        able.sort(key=lambda contact: (contact.tried, -contact.last_seen))
        first = [contact for contact in able if contact.given or contact.answered]
        second = [contact for contact in able if not (contact.given or contact.answered)]
        if self._knowledge.rng.random() < 0.5:
            first, second = second, first
        pairs = zip_longest(first, second)
        return [contact for pair in pairs for contact in pair if contact]

    def _may_call(self, peer: PeerId, now: float) -> bool:
        return self._knowledge.contacts.is_ready(peer, now) and not self._knowledge.shuns(peer, now)

    def _exchange(self, peer: PeerId, news: int, now: float) -> Action:
        """The call, for `news` announcements. It carries this node's own unless the peer has taken
        that before.
        """
        local_announcement, view = self._knowledge.local_announcement, self._knowledge.view
        local_announcement.renew(self._knowledge.holdings(), now)
        told = self._knowledge.contacts.learn(peer).told
        wanted = (
            limits.MAX_EXCHANGED
            if len(view) < SMALL_VIEW
            else max(0, min(limits.MAX_EXCHANGED, news))
        )
        self._news -= wanted
        sealed = b"" if told == local_announcement.seq else local_announcement.sealed
        request = wire.ExchangeRequest(self._tag, wanted, view.digest(), sealed)
        asked = PendingCall(peer, wire.EXCHANGE, now, news=wanted, seq=local_announcement.seq)
        return self._knowledge.call(asked, wire.encode_exchange(request))
