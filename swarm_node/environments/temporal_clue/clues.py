"""Clues about a world, as data, and what each demands of it. solver.py turns demands into
constraints, text.py clues into sentences.
"""

from dataclasses import dataclass
from functools import lru_cache

from swarm_node.environments.temporal_clue.worlds import Fact, Setting, World

Way = tuple[Fact, ...]  # facts that are true together


@dataclass(frozen=True)
class Named:
    """A piece by its name."""

    piece: int


@dataclass(frozen=True)
class Murderer:
    """The murderer, without a name."""


@dataclass(frozen=True)
class MurderWeapon:
    """The murder weapon, without a name."""


@dataclass(frozen=True)
class Motivated:
    """A suspect with this motive: the only one, or one of several."""

    motive: int


Term = Named | Murderer | MurderWeapon | Motivated


@dataclass(frozen=True)
class At:
    """Somebody, or a weapon, was in this room at this time."""

    who: Term
    room: int
    time: int


@dataclass(frozen=True)
class Same:
    """Both pieces were in one room at this time."""

    who: Term
    other: Term
    time: int


@dataclass(frozen=True)
class Beside:
    """`who` was in the room just `direction` of the room of `other`."""

    who: Term
    direction: str
    other: Term
    time: int


@dataclass(frozen=True)
class Together:
    """Both pieces were in this room at the same time, at least once."""

    who: Term
    other: Term
    room: int


@dataclass(frozen=True)
class Moved:
    """`who` went from room `begin` to room `end`, and arrived at `time`, with a weapon (None:
    unknown).
    """

    who: Term
    begin: int
    end: int
    time: int
    weapon: Term | None = None


@dataclass(frozen=True)
class Either:
    """Exactly one of the two clues is true."""

    left: At
    right: At


@dataclass(frozen=True)
class Equivalent:
    """Both clues are true, or neither."""

    left: At
    right: At


@dataclass(frozen=True)
class HasMotive:
    """This suspect has this motive."""

    suspect: int
    motive: int


@dataclass(frozen=True)
class Solution:
    """A part of the answer: a suspect, a weapon (piece), a room, a time or a motive."""

    part: str  # "murderer", "weapon", "room", "time" or "motive"
    value: int


Clue = At | Same | Beside | Together | Moved | Either | Equivalent | HasMotive | Solution


def pieces(term: Term, setting: Setting) -> list[tuple[int, Way]]:
    """The pieces that a term may stand for, each with what has to be true for it."""
    suspects = range(setting.victim)
    match term:
        case Named(piece):
            return [(piece, ())]
        case Murderer():
            return [(suspect, (("murderer", suspect),)) for suspect in suspects]
        case MurderWeapon():
            return [(piece, (("weapon", piece),)) for piece in setting.weapon_pieces]
        case Motivated(motive):
            return [(suspect, (("motive", suspect, motive),)) for suspect in suspects]


def meant(term: Term, setting: Setting, world: World) -> int:
    """The number of the piece (a suspect or a weapon) that a term, such as "the murderer", stands
    for in this world.
    """
    (piece,) = (piece for piece, way in pieces(term, setting) if world.facts.issuperset(way))
    return piece


def _moves(who: Term, begin: int, end: int, time: int, setting: Setting) -> list[Way]:
    """The ways in which `who` is in one room just before the time, and in another at it."""
    return [(*x, ("at", p, begin, time - 1), ("at", p, end, time)) for p, x in pieces(who, setting)]


@lru_cache(maxsize=1024)  # about the clues of one puzzle: each is tried in many worlds
def demands(clue: Clue, setting: Setting) -> list[list[Way]]:  # noqa: PLR0911  (a case per kind of clue)
    """What has to be true if the clue is: one way of each list. Raises TypeError for the two clues
    that join two sentences.
    """
    rooms, times = range(len(setting.rooms)), range(len(setting.times))

    def pairs(who: Term, other: Term, places: list[tuple[int, int, int]]) -> list[list[Way]]:
        """`places`: (room of `who`, room of `other`, time)."""
        return [
            [
                (*x, *y, ("at", p, here, time), ("at", q, there, time))
                for p, x in pieces(who, setting)
                for q, y in pieces(other, setting)
                for here, there, time in places
            ]
        ]

    match clue:
        case At(who, room, time):
            return [[(*x, ("at", p, room, time)) for p, x in pieces(who, setting)]]
        case Same(who, other, time):
            return pairs(who, other, [(room, room, time) for room in rooms])
        case Beside(who, direction, other, time):
            beside = [(setting.beside(room, direction), room) for room in rooms]
            return pairs(
                who, other, [(here, room, time) for here, room in beside if here is not None]
            )
        case Together(who, other, room):
            return pairs(who, other, [(room, room, time) for time in times])
        case Moved(who, begin, end, time, weapon):
            movers = [who] if weapon is None else [who, weapon]
            return [_moves(mover, begin, end, time, setting) for mover in movers]
        case HasMotive(suspect, motive):
            return [[(("motive", suspect, motive),)]]
        case Solution("motive", motive):
            return [[(("murderer", s), ("motive", s, motive)) for s in range(setting.victim)]]
        case Solution(part, value):
            return [[((part, value),)]]
    raise TypeError(f"two sentences: {clue}")


def holds(clue: Clue, setting: Setting, world: World) -> bool:
    """Whether the clue is true of this world."""
    match clue:
        case Either(left, right):
            return holds(left, setting, world) != holds(right, setting, world)
        case Equivalent(left, right):
            return holds(left, setting, world) == holds(right, setting, world)
    return all(any(map(world.facts.issuperset, ways)) for ways in demands(clue, setting))


def solution_of(world: World) -> dict[str, int]:
    """The answer to the five questions, as numbers. No motive if the setting has none."""
    answer = {
        "murderer": world.murderer,
        "weapon": world.weapon,
        "room": world.scene,
        "time": world.time,
    }
    return {**answer, "motive": world.motives[world.murderer]} if world.motives else answer
