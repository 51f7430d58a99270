"""Pulls groups by content hash: which groups for the trainer's next round, from which peer, and
from which next.

Gossip brings announcements. In one an author names its newest groups by their content hashes, and
hints at the groups that it holds, by the first bytes of each hash. No text travels before somebody
asks for it. When the trainer begins a round it says how many groups it wants. This file
chooses authors, which are called origins, and for each of them the groups to pull, and finds a peer
that serves them: the origin, or any other that holds them, so that a popular author is not asked by
everybody, and an author that has left is still read.

    begin(count)        the trainer wants so many groups: all of them are missing
        |
        v
     go_on() <------------------------------------------+
        |  _choose: origins, and groups of each         |
        v                                               |
    Want(origin, keys)                                  |
        |                                               |
        v                        no peer is left        |
     _ask(want) ----------------------------------> missing again
        |    ^
        |    |  groups of the want have not come: ask the next peer
        |    |
        |    +------------------- failed() <--- no reply, or one that cannot be read
        v    |
    PULL to a peer, which _source has drawn
        |    |
        v    |                     wrong bytes: the peer that served them is banned
    replied() ---> _genuine ------ another author's group: the origin is charged
                      |
                      v            against this swarm's rules: its author is charged
                    _take -------- a blocked task, an old round, or a group that has come
                      |            before: left
                      |
                      v
                   Deliver to the trainer, and keep it for other peers

What always holds (tests/swarm/test_exchange.py, test_exchange_hostile.py, test_eclipse.py):

- A group whose hash is in `_seen` is not asked for: it is this node's own, or it has come and was
  delivered, refused or left. It is noted before it is reviewed, so a refused one is not pulled
  again from the next peer.
- An origin is chosen once a round, and of a want each peer is asked once. So a round's pulls end,
  whatever peers reply.
- `_missing` counts the groups of this round for which no peer has been asked. A want that finds no
  peer gives its groups back, unless another round has begun meanwhile.
- At most MAX_PULLS pulls are under way, over all rounds.
- Nobody is charged for what it cannot know. Who passes on a group has checked its hash and its
  signature, so wrong bytes are its fault. Whether a group keeps the rules is its author's.
- After the first wrong group of a reply the rest is not looked at: one lie costs one verification.

Nothing here sends, waits or reads a clock: the methods take the time in seconds and return actions.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from protocol import codec, limits, wire
from protocol.admission import authenticate, review
from protocol.messages import PeerId, Reason, Rejected, RolloutGroup
from swarm_node.common.lru import Lru
from swarm_node.network.actions import Action, Deliver, Refuse
from swarm_node.network.exchange.knowledge import Knowledge, PendingCall, Want
from swarm_node.network.exchange.peers import BAD_REPLY_POINTS, BAN, OTHER_POINTS, POINTS
from swarm_node.network.exchange.rounds import Rounds
from swarm_node.network.exchange.view import HeardAnnouncement, holding, youngest
from swarm_node.network.parties import in_turn

MAX_PULLS = 8  # at the same time
PAUSE = 0.5  # seconds to the next look for groups to fetch, after a look that found none
# Seconds that a round's pulls wait at most for its first exchanges; rounds are further apart
PULL_DELAY = 1.0
# Groups remembered so that none is taken twice; announcements in the view name 1,024 at most
MAX_SEEN = 2048
YOUTH = 3  # origins are drawn among the youngest announcements, so many for each origin wanted
MIN_CHOICE = 8  # ... but among at least so many
LEAST_WEIGHT = 0.05  # in drawing whom to ask, of a peer none of whose pulls succeeded


class Fetching:
    """Chooses the groups to pull, the peer to ask, and the next peer if that one fails.

    The authors of groups are called origins. A party is a public network of addresses, or one peer
    of the local network (see `Knowledge.party`). The groups of a round come in even shares from the
    parties: one group from each if there are as many parties as groups wanted, and all groups from
    one if only that party is known. So no party fills a training set while others are there,
    however many authors it has. If rounds are too short to ask for them one by one, several rounds
    are asked for together, and a party may give a group for each of them.
    """

    def __init__(self, knowledge: Knowledge, now: float) -> None:
        self._knowledge = knowledge
        self._tag = wire.swarm_tag(knowledge.swarm)
        self._wanted = 0  # groups, in this round
        self._missing = 0  # of those, groups for which no peer has been asked yet
        self._each = 1  # rounds asked for together; an origin may give a group for each
        # Authors whose groups were or are being fetched in this round
        self._origins: set[PeerId] = set()
        # Party -> its groups that were or are being fetched in this round
        self._taken: Counter[str] = Counter()
        self._rounds = Rounds()
        # Content hashes of local groups and of those delivered
        self._seen: Lru[str, None] = Lru(MAX_SEEN)
        # Group delivered -> the peer that served it
        self._sources: Lru[str, PeerId] = Lru(MAX_SEEN)
        self._began = now  # seconds
        self._look = now  # seconds, when to look for groups to fetch again
        self.round = 0

    def begin(self, count: int, rounds: int, now: float) -> None:
        """The trainer wants `count` groups for its next round, or for its next `rounds`. Groups
        under way still come, so their origins are not chosen again.
        """
        self._wanted = self._missing = count
        self._each = min(rounds, limits.MAX_PULLED)
        self._origins = {want.origin for want in self._knowledge.wants()}
        self._taken.clear()
        for want in self._knowledge.wants():
            self._taken[self._knowledge.party(want.origin)] += len(want.keys)
        self._began, self._look, self.round = now, now, self.round + 1

    def go_on(self, now: float) -> list[Action]:
        """Asks for missing groups, once the round's first exchanges are over: groups are used a
        round later anyway.
        """
        learning = self._knowledge.busy(wire.EXCHANGE) and now - self._began < PULL_DELAY
        if not self._missing or now < self._look or learning:
            return []
        actions: list[Action] = []
        while room := MAX_PULLS - len(self._knowledge.busy(wire.PULL)):
            if not (wants := self._choose(min(room, self._missing), now)):
                self._look = now + PAUSE
                break
            for want in wants:
                actions += self._ask(want, now)
        return actions

    def replied(self, asked: PendingCall, want: Want, reply: bytes, now: float) -> list[Action]:
        """Deliveries, and calls to the next source for groups that did not come."""
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
                break  # one lie costs one verification: the rest is not looked at
        if all(key in self._seen for key in want.keys):
            return actions
        return actions + (self._ask(want, now) if actions else self.failed(asked, want, now))

    def failed(
        self, asked: PendingCall, want: Want, now: float, its_doing: bool = True
    ) -> list[Action]:
        """Notes the failure if it is the peer's (`its_doing`), and asks the next holder."""
        if its_doing:
            self._knowledge.reputation.pulled(asked.peer, success=False)
        return self._ask(want, now)

    def give_back(self, wants: Iterable[Want]) -> None:
        """These wants are given up, and are nobody's fault: their groups are missing again, and
        their origins may be chosen again.
        """
        for want in wants:
            self._origins.discard(want.origin)
            if want.round == self.round:
                self._missing += sum(key not in self._seen for key in want.keys)

    def remember(self, keys: Iterable[str]) -> None:
        """Never fetch the groups with these content hashes."""
        for key in keys:
            self._seen[key] = None

    def seen(self) -> tuple[str, ...]:
        """Content hashes of the groups remembered, oldest first."""
        return tuple(self._seen)

    def source(self, key: str) -> PeerId | None:
        """Who served the group, while that is remembered."""
        return self._sources.get(key)

    def _choose(self, wanted: int, now: float) -> list[Want]:
        """Up to `wanted` wants, each of another author: up to half of them of steady peers, which
        others cannot push out; the rest of the youngest announcements; parties take turns, and none
        gives more than its even share. Each author is trusted, and it or a peer that holds the
        groups is ready to be asked.
        """
        view, steady, rng = self._knowledge.view, self._knowledge.steady(), self._knowledge.rng
        able = {
            entry.announcement.author
            for entry in view
            if self._is_ready(entry.announcement.author, now)
        }
        hints = {
            hint
            for entry in view
            if entry.announcement.author in able
            for hint in entry.announcement.held
        }
        offers: dict[PeerId, list[str]] = {}
        for entry in view:
            author = entry.announcement.author
            if author not in self._origins and self._is_trusted(author, now):
                unseen = [key for key in entry.announcement.groups if key not in self._seen]
                if author not in able:
                    unseen = [key for key in unseen if holding(key) in hints]
                offers[author] = unseen
        parties = {author: self._knowledge.party(author) for author in self._origins.union(offers)}
        each = math.ceil(self._wanted / max(1, len(set(parties.values()))))
        even = max(self._each, min(each, limits.MAX_PULLED))

        def party(entry: HeardAnnouncement) -> str:
            return parties[entry.announcement.author]

        eligible = [
            entry
            for entry in view
            if offers.get(entry.announcement.author) and self._taken[party(entry)] < even
        ]
        kept = [entry for entry in eligible if entry.announcement.author in steady]
        first = in_turn(kept, wanted // 2, party, rng)
        authors = [entry.announcement.author for entry in first]
        others = [entry for entry in eligible if entry.announcement.author not in authors]
        young = youngest(others, max(MIN_CHOICE, YOUTH * wanted))
        rest = in_turn(young, len(young), party, rng)
        served = set(map(party, first))
        rest.sort(key=lambda entry: party(entry) in served)  # these have had their turn
        authors += [entry.announcement.author for entry in rest]
        return self._wants(authors[:wanted], parties, offers, even)

    def _wants(
        self,
        authors: Sequence[PeerId],
        parties: Mapping[PeerId, str],
        offers: Mapping[PeerId, Sequence[str]],
        even: int,
    ) -> list[Want]:
        """The groups to ask for of each of these authors: of a party at most `even` in a round."""
        self._origins.update(authors)
        wants = list[Want]()
        for left, author in zip(range(len(authors), 0, -1), authors, strict=True):
            room = min(even - self._taken[parties[author]], math.ceil(self._missing / left))
            share = min(room, len(offers[author]))
            if share > 0:
                self._missing -= share
                self._taken[parties[author]] += share
                keys = self._knowledge.rng.sample(offers[author], share)
                wants.append(Want(self.round, author, tuple(keys)))
        return wants

    def _source(self, want: Want, now: float) -> PeerId | None:
        """The peer to ask next: the author or a peer that says it holds all the groups; then one
        that holds most of them. Drawn by chance, so that load spreads, more often if its pulls
        succeed. An author of whom it is not known where it is comes first, since the party in which
        it counts depends on that. None when no peer is left.
        """
        if (
            want.origin not in want.asked
            and not self._knowledge.is_proven(want.origin)
            and self._is_ready(want.origin, now)
        ):
            want.asked.add(want.origin)
            return want.origin
        hints = {holding(key) for key in want.keys}
        holdings = {want.origin: len(hints)}  # an author holds all of its groups
        for entry in self._knowledge.view:
            count = len(hints.intersection(entry.announcement.held))
            holdings.setdefault(entry.announcement.author, count)
        candidates = {
            peer: count
            for peer, count in holdings.items()
            if count and peer not in want.asked and self._is_ready(peer, now)
        }
        if not candidates:
            return None
        most = max(candidates.values())
        best = [peer for peer, count in candidates.items() if count == most]
        reputation = self._knowledge.reputation
        weights = [max(LEAST_WEIGHT, reputation.of(peer).success) for peer in best]
        [peer] = self._knowledge.rng.choices(best, weights)
        want.asked.add(peer)
        return peer

    def _ask(self, want: Want, now: float) -> list[Action]:
        # The others have come meanwhile
        want.keys = tuple(key for key in want.keys if key not in self._seen)
        if not want.keys:
            return []
        # Another origin may replace it; it is not asked again now
        if (peer := self._source(want, now)) is None:
            self._missing += len(want.keys) if want.round == self.round else 0
            return []
        request = wire.encode_pull(self._tag, [codec.to_bytes(key) for key in want.keys])
        return [self._knowledge.call(PendingCall(peer, wire.PULL, now, want=want), request)]

    def _is_ready(self, peer: PeerId, now: float) -> bool:
        return self._knowledge.contacts.is_ready(peer, now) and self._is_trusted(peer, now)

    def _is_trusted(self, peer: PeerId, now: float) -> bool:
        return self._knowledge.access.peer(peer) and self._knowledge.reputation.is_trusted(
            peer, now
        )

    def _genuine(
        self, source: PeerId, origin: PeerId, key: str, envelope: bytes, now: float
    ) -> RolloutGroup | None:
        """The group, or None. Wrong bytes and a false signature are the fault of `source`: a peer
        that follows the protocol has checked both. A group of another author is the fault of
        `origin`, which announced it.
        """
        knowledge = self._knowledge
        if codec.to_text(codec.content_hash(codec.split(envelope)[1])) != key:
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

    def _take(
        self, source: PeerId, group: RolloutGroup, key: str, envelope: bytes, now: float
    ) -> list[Action]:
        """Admits a genuine group. One that is refused is charged to its author, and is not passed
        on.
        """
        knowledge = self._knowledge
        knowledge.reputation.pulled(source, success=True)
        if key in self._seen:
            return []
        self.remember([key])
        if not knowledge.access.task(group.question):
            knowledge.counters["groups left: task blocked"] += 1
            return []
        rules = knowledge.rules
        admitted = (
            group if rules is None else review(group, replace(rules, differs=knowledge.differs))
        )
        if isinstance(admitted, Rejected):
            if admitted.reason in (Reason.UNKNOWN_QUESTION, Reason.OTHER_ENVIRONMENT):
                knowledge.not_understood(group, admitted.reason)
            knowledge.charge(
                group.author, POINTS.get(admitted.reason, OTHER_POINTS), now, admitted.reason
            )
            return [Refuse(admitted.reason)]
        if self._rounds.is_far_below(group.author, group.round, now):
            knowledge.counters["groups left: round far below its author's newest"] += 1
            return []
        self._rounds.came(group.author, group.round, now)
        knowledge.store.add(key, envelope, own=False, round=self.round, now=now)
        knowledge.counters["groups pulled"] += 1
        knowledge.reputation.authored(group.author)
        if source != group.author:
            knowledge.counters["groups pulled from a holder"] += 1
        self._sources[key] = source
        return [Deliver(codec.split(envelope)[1], source, knowledge.party(group.author, source))]
