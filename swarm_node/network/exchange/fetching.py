"""Pulling groups by content hash: from the author or a holder, another one if that fails, and checked on arrival."""

from collections.abc import Iterable

from protocol import announcing, codec, wire
from protocol.admission import authenticate, review
from protocol.messages import PeerId, RolloutGroup
from protocol.rejection import Rejected
from swarm_node.common.lru import Lru
from swarm_node.network.actions import Action, Deliver, Refuse
from swarm_node.network.exchange.calls import Asked, Calls
from swarm_node.network.exchange.knowledge import Knowledge
from swarm_node.network.exchange.pulls import Want, Wants
from swarm_node.network.exchange.reputation import BAD_REPLY_POINTS, BAN, OTHER_POINTS, POINTS

MAX_PULLS = 8  # at the same time
PAUSE = 0.5  # seconds until it is looked again whether there is something to fetch, after there was nothing
PULL_DELAY = 1.0  # seconds that a round's pulls wait at most for its first exchanges; less than between two rounds
MAX_SEEN = 2048  # groups remembered so that none is taken twice; announcements in the view name 1,024 at most


class Fetching:
    """Pulls groups: which, from whom, and from whom next if that fails."""

    def __init__(self, knowledge: Knowledge, calls: Calls, now: float) -> None:
        self._knowledge = knowledge
        self._calls = calls
        self._tag = wire.swarm_tag(knowledge.swarm)
        self._wants = Wants(knowledge.rng)
        self._seen: Lru[str, None] = Lru(MAX_SEEN)  # content hashes of local groups and of those delivered
        self._sources: Lru[str, PeerId] = Lru(MAX_SEEN)  # of groups delivered: who served them
        self._began = now  # seconds
        self._look = now  # seconds, when there may be something to fetch again
        self.round = 0

    def begin(self, count: int, rounds: int, now: float) -> None:
        """The trainer would like so many groups for its next round, or its next few."""
        self._wants.begin(count, rounds, self._calls.wants())
        self._began, self._look, self.round = now, now, self.round + 1

    def go_on(self, now: float) -> list[Action]:
        """Ask for what is missing. First learn what is new, then choose: what comes is used a round later anyway."""
        if (
            not self._wants.missing
            or now < self._look
            or (self._calls.busy(wire.EXCHANGE) and now - self._began < PULL_DELAY)
        ):
            return []
        actions: list[Action] = []
        while room := MAX_PULLS - len(self._calls.busy(wire.PULL)):
            wants = self._wants.choose(
                room,
                self._knowledge.view,
                self._seen,
                lambda peer: self._is_trusted(peer, now),
                lambda peer: self._is_ready(peer, now),
                self._knowledge.steady(),
            )
            if not wants:
                self._look = now + PAUSE
                break
            for want in wants:
                actions += self._ask(want, now)
        return actions

    def replied(self, asked: Asked, want: Want, reply: bytes, now: float) -> list[Action]:
        """Deliveries, and the next source for what did not come."""
        self._knowledge.contacts.answered(asked.peer, now)
        envelopes = wire.decode_groups(reply, len(want.keys))
        if isinstance(envelopes, Rejected):
            self._knowledge.counters[f"pull {envelopes.reason}"] += 1
            self._knowledge.charge(asked.peer, BAD_REPLY_POINTS, now, f"pull {envelopes.reason}")
            return self.failed(asked, want, now)
        actions: list[Action] = []
        for key, envelope in zip(want.keys, envelopes, strict=True):
            if not envelope:
                self._knowledge.counters["pull: no longer held"] += 1
            elif (group := self._genuine(asked.peer, want.origin, key, envelope, now)) is not None:
                actions += self._take(asked.peer, group, key, envelope, now)
            else:
                break  # one lie costs one verification, whatever stands behind it
        if all(key in self._seen for key in want.keys):
            return actions
        return actions + (self._ask(want, now) if actions else self.failed(asked, want, now))

    def failed(self, asked: Asked, want: Want, now: float, its_doing: bool = True) -> list[Action]:
        """Notes the failure, where it is the peer's, and asks the next holder."""
        if its_doing:
            self._knowledge.reputation.pulled(asked.peer, success=False)
        return self._ask(want, now)

    def remember(self, keys: Iterable[str]) -> None:
        """Never fetch these."""
        for key in keys:
            self._seen[key] = None

    def seen(self) -> tuple[str, ...]:
        """Oldest first."""
        return tuple(self._seen)

    def source(self, key: str) -> PeerId | None:
        """Who served the group, while that is remembered."""
        return self._sources.get(key)

    def _ask(self, want: Want, now: float) -> list[Action]:
        knowledge = self._knowledge
        want.keys = tuple(key for key in want.keys if key not in self._seen)  # came, maybe by another way
        if not want.keys:
            return []
        success = knowledge.reputation.success
        peer = self._wants.source(want, knowledge.view, lambda name: self._is_ready(name, now), success)
        if peer is None:
            self._wants.give_up(want)
            return []
        request = wire.encode_pull(self._tag, [announcing.to_bytes(key) for key in want.keys])
        return [self._calls.make(Asked(peer, wire.PULL, now, want=want), request)]

    def _is_ready(self, peer: PeerId, now: float) -> bool:
        return self._knowledge.contacts.is_ready(peer, now) and self._is_trusted(peer, now)

    def _is_trusted(self, peer: PeerId, now: float) -> bool:
        return self._knowledge.access.peer(peer) and self._knowledge.reputation.is_trusted(peer, now)

    def _genuine(self, source: PeerId, origin: PeerId, key: str, envelope: bytes, now: float) -> RolloutGroup | None:
        """Other bytes than asked for, or a signature that does not hold, are the source's lie: whoever follows the
        protocol has checked both. An author that announces a group of another lies itself."""
        knowledge = self._knowledge
        if announcing.to_text(codec.content_hash(codec.split(envelope)[1])) != key:
            knowledge.counters["pull: hash mismatch"] += 1
            knowledge.ban(source, now, "pull: hash mismatch")
            return None
        group = authenticate(envelope, knowledge.swarm)
        if isinstance(group, Rejected):
            knowledge.counters[f"pull {group.reason}"] += 1
            knowledge.ban(source, now, f"pull {group.reason}")
            return None
        if group.author != origin:
            knowledge.counters["pull: group of another author"] += 1
            knowledge.charge(origin, BAN, now, "announced a group of another author")
            return None
        return group

    def _take(self, source: PeerId, group: RolloutGroup, key: str, envelope: bytes, now: float) -> list[Action]:
        """Admit a genuine group. One that is refused is its author's fault, and is not passed on."""
        knowledge = self._knowledge
        knowledge.reputation.pulled(source, success=True)
        if key in self._seen:
            return []
        self.remember([key])
        if not knowledge.access.task(group.question):
            knowledge.counters["groups left: task blocked"] += 1
            return []
        admitted = group if knowledge.rules is None else review(group, knowledge.rules)
        if isinstance(admitted, Rejected):
            knowledge.charge(group.author, POINTS.get(admitted.reason, OTHER_POINTS), now, admitted.reason)
            return [Refuse(admitted.reason)]
        knowledge.store.add(key, envelope, own=False, round=self.round, now=now)
        knowledge.counters["groups pulled"] += 1
        knowledge.reputation.authored(group.author)
        if source != group.author:
            knowledge.counters["groups pulled from a holder"] += 1
        self._sources[key] = source
        return [Deliver(group, announcing.to_bytes(key), source)]
