"""The exchange: who this node talks to, what it tells, what it fetches. Decisions only: no sockets,
threads or clock.

Every node keeps a small random sample of the newest announcements (Newscast: Jelasity, Kowalczyk,
van Steen, 2003). It tells a few peers the announcement of a round, and they return announcements
that it lacks. From those that it knows by then it chooses groups, and fetches them by content hash,
from their author or from a peer that fetched them before. Traffic depends on what a round wants,
not on how many nodes there are.

The runner, process/runner.py, performs the actions and says how they went. Times are seconds of any
clock that never goes back. It goes on while the machine sleeps, so that what was announced before
is old afterwards.

A node that slept notices it by this clock, as ticks come twice a second. No peer is to blame for a
call that lasted as long as the sleep did, and nobody is where the node left it: see `woke`.
"""

import math
from collections.abc import Mapping, Sequence
from random import Random

from protocol import codec, limits, wire
from protocol.admission import AdmissionRules
from protocol.identity import Identity
from protocol.messages import PeerId, Round
from swarm_node.network.access import Access
from swarm_node.network.actions import (
    OTHER_ENVIRONMENT,
    UNINFORMATIVE,
    USEFUL,
    Action,
    Remembered,
    StartOver,
)
from swarm_node.network.backend import Caller, Failure
from swarm_node.network.exchange.answers import Responder
from swarm_node.network.exchange.fetching import Fetching
from swarm_node.network.exchange.following import Following, Membership
from swarm_node.network.exchange.gossip import OVERTAKEN, Gossip
from swarm_node.network.exchange.knowledge import Knowledge, LocalAnnouncement, PeerView, peer_views
from swarm_node.network.exchange.peers import SampledPeers, points
from swarm_node.network.exchange.view import View
from swarm_node.settings import NetworkConfig

GONE = 3  # failed calls in a row after which a sampled peer makes room
# Between two looks at the clock: after so long a gap this node has slept, or could not run at all.
# Above it the calls under way have timed out, here or at the other end
SLEPT_SECONDS = 20.0
WOKE = "woke up"  # counter


class Exchange:
    """One node's part in the swarm."""

    def __init__(
        self,
        identity: Identity,
        swarm: str,
        config: NetworkConfig,
        random: Random,
        now: float,
        serve_only: bool = False,
        rules: AdmissionRules | None = None,
    ) -> None:
        own, sample = LocalAnnouncement(identity, swarm, now), SampledPeers(Random(random.random()))
        self._knowledge = Knowledge(identity, swarm, random, own, sample, rules)
        self._serve_only = serve_only
        self._following = Following(self._knowledge, now)
        self.members = Membership(self._knowledge)
        others = {wire.CARD: self._following.answer, wire.ENTER: self.members.answer}
        self._answers = Responder(
            self._knowledge, others, self.members.lets, config.upload_limit, now
        )
        self._gossip = Gossip(self._knowledge, config.exchange_seconds, now)
        self._fetching = Fetching(self._knowledge, now)
        self._ticked = now  # seconds
        self._looked = math.inf  # seconds, at the clock; before the first tick nothing is under way

    # What the trainer's side says.

    def want(self, count: int, now: float) -> list[Action]:
        """Before the first round: fetches `count` external groups, as soon as some are known."""
        self._fetching.begin(count, 1, now)
        return self._finish([], now)

    def look(self, count: int, now: float) -> list[Action]:
        """For a node without a trainer: fetches `count` groups to look at, and drops those of the
        last look.
        """
        store = self._knowledge.store
        store.remove(store.external(len(store)))
        return self.want(count, now)

    def publish(
        self, envelopes: Sequence[bytes], round: Round, want: int, now: float, rounds: int = 1
    ) -> list[Action]:
        """Announces this node's sealed groups of a round. `want`: external groups for the next one.
        Quick rounds may be announced together: then both are for `rounds` rounds.
        """
        knowledge, keys = self._knowledge, []
        actions = self._noticed(now)
        want = 0 if self._serve_only else want
        self._fetching.begin(want, rounds, now)
        for envelope in envelopes:
            keys.append(codec.to_text(codec.content_hash(codec.split(envelope)[1])))
            knowledge.store.add(keys[-1], envelope, own=True, round=self._fetching.round, now=now)
            knowledge.downloads.published(keys[-1])
        knowledge.store.expire(self._fetching.round, now)
        knowledge.local_announcement.published(
            round, knowledge.rng.sample(keys, min(len(keys), limits.MAX_ANNOUNCED_GROUPS))
        )
        return self._finish(actions + self._gossip.announce(now, want), now)

    def verdict(self, author: PeerId, envelope_hash: bytes, outcome: str, now: float) -> None:
        """What the trainer found in a group of `author`: "useful", "uninformative", or why it could
        not be used.
        """
        knowledge, key = self._knowledge, codec.to_text(envelope_hash)
        # Not the server, which need not have scored it
        knowledge.charge(author, points(outcome), now, outcome)
        if outcome == OTHER_ENVIRONMENT:
            knowledge.estranged(key)
        if outcome not in (USEFUL, UNINFORMATIVE):
            knowledge.store.remove([key])  # not to be passed on
            if points(outcome) > 0 and (source := self._fetching.source(key)) is not None:
                knowledge.reputation.pulled(source, success=False)  # it is only asked less often

    def go_by(
        self, cards: Sequence[bytes], now: float, proof: bytes = b"", today: float = 0.0
    ) -> list[Action]:
        """Follows a chain that the caller checked. `proof`: this node's, as a member; `today`:
        seconds since 1970.
        """
        self.members.go_by(self._following.go_by(cards, now), proof, now, today)
        return self._finish(self._following.tick(now), now)

    # What the runner says.

    def tick(self, now: float) -> list[Action]:
        """The actions that are due. Called at least once a second."""
        actions = self._noticed(now)
        self._ticked = self._looked = now
        for token in self._knowledge.overdue(now):
            actions += self.failed(token, Failure.TIMEOUT, now)
        return self._finish(actions + self._gossip.tick(now) + self._following.tick(now), now)

    def woke(self, now: float) -> list[Action]:
        """This node has slept, or its machine was in no network. The next ticks call peers again,
        whatever failed before, and announce where this node is then.
        """
        knowledge = self._knowledge
        self._looked = now
        knowledge.counters[WOKE] += 1
        self._fetching.give_back(knowledge.wants())
        knowledge.asked.clear()
        knowledge.contacts.woke()
        knowledge.local_announcement.woke()
        knowledge.view.expire(now)  # before anybody asks for what is in it
        self._gossip.woke(now)
        return [StartOver()]

    def _noticed(self, now: float) -> list[Action]:
        """What is to be done if this node has slept since the last tick."""
        return self.woke(now) if now - self._looked > SLEPT_SECONDS else []

    def answer(self, caller: Caller, protocol: str, request: bytes, now: float) -> bytes:
        """The reply to a request on an inbound stream; b"" refuses. Never raises, whatever a peer's
        bytes.
        """
        self._knowledge.outbox += self._noticed(now)
        self._count(protocol, "in", request)
        reply = self._answers.answer(caller, protocol, request, now)
        self._count(protocol, "out", reply)
        return reply

    def replied(self, token: int, reply: bytes, now: float) -> list[Action]:
        """A call was answered. An empty reply is a refusal."""
        if not reply:
            return self.failed(token, Failure.REFUSED, now)
        actions = self._noticed(now)
        if (asked := self._knowledge.asked.pop(token, None)) is None:  # too late: it was given up
            return actions
        self._count(asked.protocol, "in", reply)
        if asked.want:
            actions = self._fetching.replied(asked, asked.want, reply, now)
        elif asked.protocol == wire.EXCHANGE:
            self._knowledge.contacts.learn(asked.peer).latency = now - asked.sent
            self._gossip.replied(asked, reply, now)
        elif asked.protocol == wire.CARD:
            actions = self._following.replied(asked, reply, now)
        else:
            self._gossip.introduced(asked, reply, now)
        return self._finish(actions, now)

    def failed(self, token: int, failure: Failure, now: float) -> list[Action]:
        """A call failed."""
        actions = self._noticed(now)
        if (asked := self._knowledge.asked.pop(token, None)) is None:
            return actions
        self._knowledge.counters[f"{wire.NAMES[asked.protocol]} failed: {failure}"] += 1
        # A peer may have no card
        its_fault = asked.protocol != wire.CARD or failure == Failure.UNREACHABLE
        if failure == Failure.REFUSED:
            # It may have forgotten this node, which shows its proof again
            self.members.entered.pop(asked.peer, None)
        if failure == Failure.HELD:
            self._knowledge.contacts.held(asked.peer, now)
        elif its_fault and self._knowledge.contacts.failed(asked.peer, now) >= GONE:
            self._knowledge.sample.drop(asked.peer)
        if asked.want:
            actions = self._fetching.failed(
                asked, asked.want, now, its_doing=failure != Failure.HELD
            )
        elif asked.protocol == wire.EXCHANGE:
            actions = self._gossip.failed(asked, failure, now)
        return self._finish(actions, now)

    def learned(self, peer: PeerId, addresses: Sequence[str]) -> None:
        """A peer known from elsewhere: given by the user, cached, found on the LAN; without
        addresses: connected.
        """
        if peer != self._knowledge.identity.peer_id:
            contact = self._knowledge.contacts.learn(peer, addresses)
            contact.given = contact.given or bool(addresses)

    def remember(self, peers: Mapping[PeerId, Sequence[str]]) -> None:
        """Peers that an earlier run of this node knew, those known longest first, and addresses of
        each.
        """
        local_id = self._knowledge.identity.peer_id
        others = {peer: addresses for peer, addresses in peers.items() if peer != local_id}
        self._knowledge.contacts.remember(others)

    def met(self, peer: PeerId, address: str) -> None:
        """A connection to this peer exists, with this multiaddr at its other end."""
        self._knowledge.contacts.met(peer, address)

    def allow(self, access: Access) -> None:
        """From now on, deals only with peers, addresses and tasks that the user's lists let
        pass.
        """
        self._knowledge.access = access
        for entry in list(self._knowledge.view):
            if not access.peer(entry.announcement.author):
                self._knowledge.view.remove(entry.announcement.author)

    def lets(self, peer: PeerId, address: str) -> bool:
        """Whether the card and the user's lists let this peer at this multiaddr pass."""
        listed = peer not in self._knowledge.revoked and self._knowledge.access.peer(peer)
        return listed and self._knowledge.access.address(address)

    def reachable(self, addresses: Sequence[str]) -> None:
        """Own addresses as others may dial them, best first."""
        self._knowledge.local_announcement.reachable(addresses)

    # What a person, the peer cache and a restart want to know.

    @property
    def view(self) -> View:
        """The announcements that this node knows. For reading only."""
        return self._knowledge.view

    def steady(self) -> frozenset[PeerId]:
        """Peers that others cannot push out: worth remembering for the next start."""
        return self._knowledge.steady()

    def peers(self, now: float) -> list[PeerView]:
        """Everybody known, those seen last first."""
        return peer_views(self._knowledge, now)

    def downloads(self) -> dict[str, int]:
        """How many nodes have each of this node's newest groups, by content hash."""
        return self._knowledge.downloads.counts(self._knowledge.view)

    def overtaken(self) -> int:
        """How often another node, or this one before a restart, was found to speak as this one with
        a higher number.
        """
        return self._knowledge.counters[OVERTAKEN]

    def strangers(self) -> int:
        """How many known peers have nothing to share with this node, such as peers of another
        swarm.
        """
        return sum(bool(contact.note) for contact in self._knowledge.contacts)

    def counters(self) -> Mapping[str, int]:
        """What happened so far: refusals and rejections by reason, failures, and bytes by protocol
        and direction.
        """
        return {str(name): count for name, count in self._knowledge.counters.items()}

    def state(self) -> Remembered:
        """What the next process must know, as of the last tick."""
        knowledge, now = self._knowledge, self._ticked
        received, bans = knowledge.view.sequences(now), knowledge.reputation.bans(now)
        return Remembered(
            max(0, knowledge.local_announcement.seq), received, self._fetching.seen(), bans
        )

    def restore(self, remembered: Remembered, now: float) -> None:
        """Goes on from what `state` returned."""
        self._knowledge.local_announcement.overtake(remembered.seq)
        self._knowledge.view.restore(remembered.received, now)
        self._fetching.remember(remembered.seen)
        for peer, seconds in remembered.bans.items():
            self._knowledge.reputation.ban(peer, now, seconds)

    def _finish(self, actions: list[Action], now: float) -> list[Action]:
        """These actions, the pulls that have become possible, and the actions that wait in the
        outbox.
        """
        actions += self._fetching.go_on(now) + self._knowledge.outbox
        self._knowledge.outbox = []
        return actions

    def _count(self, protocol: str, direction: str, data: bytes) -> None:
        self._knowledge.counters[f"{wire.NAMES.get(protocol, 'unknown')} bytes {direction}"] += len(
            data
        )
