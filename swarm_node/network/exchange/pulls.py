"""Which groups to fetch for the trainer's next round, and from whom."""

import math
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from random import Random

from protocol import limits
from protocol.messages import PeerId
from swarm_node.network.exchange.addresses import fair_sample
from swarm_node.network.exchange.view import Entry, View, holding, youngest

YOUTH = 3  # origins are drawn among so many times as many of the youngest announcements as are wanted
MIN_CHOICE = 8  # ... but at least among so many


@dataclass(slots=True)
class Want:
    """Groups of one origin to fetch in one call, and who was asked for them already."""

    round: int  # counted by `Wants`
    origin: PeerId
    keys: tuple[str, ...]  # content hashes, as announced
    asked: set[PeerId] = field(default_factory=set)


class Wants:
    """Of any origin a round gets at most one group: nobody can fill another's training set. Rounds too short to ask for
    one by one are asked for together, and then it is so many groups of any origin."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self.missing = 0  # groups for which nobody has been asked yet
        self._round = 0
        self._each = 1  # groups of one origin, at most
        self._origins: set[PeerId] = set()  # fetched from, or being fetched from, this round

    def begin(self, count: int, rounds: int, under_way: Iterable[Want]) -> None:
        """So many groups are wanted for so many rounds. What is under way still comes, so nothing more is asked of its
        origins."""
        self.missing = count
        self._each = min(rounds, limits.MAX_PULLED)
        self._round += 1
        self._origins = {want.origin for want in under_way}

    def choose(
        self,
        most: int,
        view: View,
        seen: Collection[str],
        trusted: Callable[[PeerId], bool],
        ready: Callable[[PeerId], bool],
        steady: Collection[PeerId] = (),
    ) -> list[Want]:
        """Up to `most` wants, of as many authors as there are: half of them `steady`, if there are so many; the others
        of young announcements; all spread over networks of addresses. An author is trusted, and it or somebody who
        holds the groups is ready to be asked."""
        wanted = min(most, self.missing)
        if wanted <= 0:
            return []
        able = {entry.announcement.author for entry in view if ready(entry.announcement.author)}
        hints = {hint for entry in view if entry.announcement.author in able for hint in entry.announcement.held}
        offers: dict[PeerId, list[str]] = {}
        for entry in view:
            author = entry.announcement.author
            if author not in self._origins and trusted(author):
                unseen = [key for key in entry.announcement.groups if key not in seen]
                offers[author] = unseen if author in able else [key for key in unseen if holding(key) in hints]
        eligible = [entry for entry in view if offers.get(entry.announcement.author)]
        kept = [entry for entry in eligible if entry.announcement.author in steady]
        first = [entry.announcement.author for entry in fair_sample(kept, wanted // 2, _network, self._rng)]
        others = [entry for entry in eligible if entry.announcement.author not in first]
        young = youngest(others, max(MIN_CHOICE, YOUTH * wanted))
        drawn = fair_sample(young, wanted - len(first), _network, self._rng)
        authors = first + [entry.announcement.author for entry in drawn]
        self._origins.update(authors)
        wants = []
        for left, author in zip(range(len(authors), 0, -1), authors, strict=True):
            share = min(self._each, math.ceil(self.missing / left), len(offers[author]))
            self.missing -= share
            wants.append(Want(self._round, author, tuple(self._rng.sample(offers[author], share))))
        return wants

    def source(
        self, want: Want, view: View, ready: Callable[[PeerId], bool], success: Callable[[PeerId], float]
    ) -> PeerId | None:
        """Whom to ask next: the author or a peer that says it holds the groups, by chance, so that load spreads; those
        whose pulls succeed more often. None when nobody is left."""
        hints = set(map(holding, want.keys))
        holders = [entry.announcement.author for entry in view if hints.issubset(entry.announcement.held)]
        names = [peer for peer in dict.fromkeys([want.origin, *holders]) if peer not in want.asked and ready(peer)]
        if not names:
            return None
        peer = self._rng.choices(names, [max(0.05, success(name)) for name in names])[0]
        want.asked.add(peer)
        return peer

    def give_up(self, want: Want) -> None:
        """Nobody had them: another origin may take their place, not this one again this round."""
        if want.round == self._round:
            self.missing += len(want.keys)


def _network(entry: Entry) -> str:
    return entry.network
