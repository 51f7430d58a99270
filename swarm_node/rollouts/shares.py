"""Nobody takes more than a share of the training set, however much it sends.

A party is who counts as one when places in the training set are shared out: a public network of
addresses, since identities are free and addresses are not, or a peer of the local network. A party
that sends sixteen groups a second has many groups waiting at any time, and honest ones have few. By
chance alone, most places would be its. So places are given in two steps:

- In turn. The place goes to the party that had the fewest places lately, there to the author whose
  groups were taken least, and of its groups to the one that the sampler put first.
- Up to a level. A party stops where the others are: at the median of the places that the other
  parties had lately. What it offers beyond that waits, and a local group takes the place. Without
  this a flood would fill every place that honest peers leave empty.

The median is of parties that are here: from which something has come lately. So a party that says
little, or that has left, holds nobody back, unless half of the parties are like that. With fewer
than two other parties there is nothing to compare with, and nobody is held back.

"Lately" is counted in places that are halved every minute, or every 32 rounds where those take
longer. A party that is new begins at the median, as if it had always been here: a newcomer does not
take all places until it has caught up, nor pulls the others' level down.

Pure: rounds and seconds are arguments, and nothing is drawn by chance.
"""

from bisect import bisect_left, insort
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush

from protocol.messages import Round
from swarm_node.common.lru import Lru
from swarm_node.rollouts.groups import Group

HALF_LIFE_SECONDS = 60.0  # until a place that was given counts half ...
HALF_LIFE_ROUNDS = 32  # ... or so many rounds, where they take longer
HERE_SECONDS = 60.0  # since something came from a party that counts as here ...
HERE_ROUNDS = 4  # ... or so many rounds, where they take longer
SLACK = 1.0  # places above the level of the others, since places are whole
OTHERS = 2  # parties with fewer others are not held back
MAX_PARTIES = 1024  # that are remembered


class Shares:
    """The places that each party had lately: see the head of this file."""

    def __init__(self) -> None:
        # Party -> places that it had, those longer ago counting less
        self._places: Lru[str, float] = Lru(MAX_PARTIES)
        # Party -> when something last came from it, in rounds and in seconds
        self._came: Lru[str, tuple[Round, float]] = Lru(MAX_PARTIES)
        self._round, self._seconds = Round(0), 0.0

    def arrived(self, groups: Iterable[Group], now: Round) -> None:
        """Notes who sent something in round `now`."""
        self._round = now
        for party in dict.fromkeys(map(party_of, groups)):
            if party not in self._places or not self._is_here(party):
                before = self._places.get(party, 0.0)
                self._places[party] = max(before, self.level(party) or 0.0)
            self._came[party] = now, self._seconds

    def pass_round(self, seconds: float) -> None:
        """A round has come to its choice, at `seconds` of any clock: what was long ago counts
        less.
        """
        passed = max(0.0, seconds - self._seconds) if self._seconds else 0.0
        self._seconds = seconds
        kept = 0.5 ** min(passed / HALF_LIFE_SECONDS, 1 / HALF_LIFE_ROUNDS)
        for party in self._places:
            dict.__setitem__(self._places, party, self._places[party] * kept)

    def took(self, groups: Iterable[Group]) -> None:
        """Notes that these groups got places in a training set."""
        for party, count in Counter(map(party_of, groups)).items():
            self._places[party] = self._places.get(party, 0.0) + count

    def level(self, party: str) -> float | None:
        """How many places this party may have had lately: as many as the median of the others that
        are here. None where too few others are known.
        """
        places = self._of_those_here()
        return _level(sorted(places.values()), places.get(party))

    def in_turn(self, groups: Sequence[Group], beside: Iterable[Group] = ()) -> list[Group]:
        """The groups in the order in which they get places. Those beyond the level of the others
        are left out. `groups` come in the sampler's order. `beside`: groups that will have places
        before these.
        """
        places = self._of_those_here()
        for group in beside:
            _count(places, group)
        lines: dict[str, deque[Group]] = {}
        for group in _authors_in_turn(groups):
            lines.setdefault(party_of(group), deque()).append(group)
        # The party with the fewest places first; of equal ones, that which the sampler put first
        waiting = [(places.get(party, 0.0), number) for number, party in enumerate(lines)]
        heapify(waiting)
        parties, of_all, ordered = list(lines), sorted(places.values()), list[Group]()
        # Where the poorest party has no room below the others' level, no richer one has any
        while waiting and _has_room(waiting[0][0], of_all, parties[waiting[0][1]] in places):
            had, number = heappop(waiting)
            party = parties[number]
            group = lines[party].popleft()
            ordered.append(group)
            if may_teach(group):
                if party in places:
                    of_all.pop(bisect_left(of_all, had))
                had += 1.0
                places[party] = had
                insort(of_all, had)
            if lines[party]:
                heappush(waiting, (had, number))
        return ordered

    def _of_those_here(self) -> dict[str, float]:
        return {party: count for party, count in self._places.items() if self._is_here(party)}

    def _is_here(self, party: str) -> bool:
        if party not in self._came:
            return False
        came, seconds = self._came[party]
        return self._round - came <= HERE_ROUNDS or self._seconds - seconds <= HERE_SECONDS


def party_of(group: Group) -> str:
    """The party in which a group counts: as the network process found, else its author alone."""
    return group.party or group.author


def may_teach(group: Group) -> bool:
    """Whether the group may get a place: it is informative, or nobody has scored it yet."""
    scored = all(sample.reward is not None for sample in group.samples)
    return not scored or group.informative


def _level(of_all: Sequence[float], own: float | None) -> float | None:
    """The median of the others' places; None where there are too few others.

    Args:
        of_all: the places of all parties that are here, the fewest first.
        own: those of the party in question; None where it is not among them.
    """
    others = len(of_all) - (own is not None)
    if others < OTHERS:
        return None
    without = len(of_all) if own is None else bisect_left(of_all, own)
    lower, upper = ((others - 1) // 2, others // 2)
    # The index of a place among the others is one more from its own on
    return (of_all[lower + (lower >= without)] + of_all[upper + (upper >= without)]) / 2


def _has_room(had: float, of_all: Sequence[float], is_here: bool) -> bool:
    """Whether a party that had so many places may have another one. `of_all`: see `_level`."""
    level = _level(of_all, had if is_here else None)
    return level is None or had + 1.0 <= level + SLACK


def _count(places: dict[str, float], group: Group) -> None:
    """Adds the place of a group, if it may get one."""
    if may_teach(group):
        places[party_of(group)] = places.get(party_of(group), 0.0) + 1.0


def _authors_in_turn(groups: Sequence[Group]) -> list[Group]:
    """The groups in an order in which authors take turns; those of one author stay in theirs."""
    counted: Counter[str] = Counter()
    ranked: list[tuple[int, int, Group]] = []
    for group in groups:
        ranked.append((counted[group.author], len(ranked), group))
        counted[group.author] += 1
    ranked.sort(key=lambda rank: rank[:2])
    return [group for _, _, group in ranked]
