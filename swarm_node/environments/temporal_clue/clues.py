"""The clues of a Temporal Clue puzzle, as data, and what each demands of a world. solver.py turns
demands into constraints, text.py clues into sentences.

A demand that changes makes other puzzles at the same addresses, and peers would refuse one
another's groups: raise DRAWS in sizes.py with it. A new kind of clue is drawn by generate.py.
"""

from dataclasses import dataclass
from functools import lru_cache
from itertools import product

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
    ways: list[Way] = []
    for piece, identity in pieces(who, setting):
        before, after = ("at", piece, begin, time - 1), ("at", piece, end, time)
        ways.append((*identity, before, after))
    return ways


def _both(
    who: Term, other: Term, places: list[tuple[int, int, int]], setting: Setting
) -> list[list[Way]]:
    """What has to be true if both were where `places` says, at one of these times: (room of `who`,
    room of `other`, time).
    """
    ways: list[Way] = []
    candidates = product(pieces(who, setting), pieces(other, setting), places)
    for (piece, identity), (other_piece, other_identity), (here, there, time) in candidates:
        is_here, is_there = ("at", piece, here, time), ("at", other_piece, there, time)
        ways.append((*identity, *other_identity, is_here, is_there))
    return [ways]


@lru_cache(maxsize=1024)  # about the clues of one puzzle: each is tried in many worlds
def demands(clue: Clue, setting: Setting) -> list[list[Way]]:  # noqa: PLR0911  (a case per kind of clue)
    """What has to be true if the clue is: one way of each list. Raises TypeError for the two clues
    that join two sentences.
    """
    rooms, times = range(len(setting.rooms)), range(len(setting.times))

    match clue:
        case At(who, room, time):
            return [[(*x, ("at", p, room, time)) for p, x in pieces(who, setting)]]
        case Same(who, other, time):
            return _both(who, other, [(room, room, time) for room in rooms], setting)
        case Beside(who, direction, other, time):
            beside = [(setting.beside(room, direction), room) for room in rooms]
            places = [(here, room, time) for here, room in beside if here is not None]
            return _both(who, other, places, setting)
        case Together(who, other, room):
            return _both(who, other, [(room, room, time) for time in times], setting)
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
