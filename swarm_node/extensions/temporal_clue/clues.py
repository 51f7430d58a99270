"""Clues about a world, as data. `holds` tests whether a clue is true of a world, solver.py turns it into a constraint,
text.py into a sentence."""

from collections.abc import Iterator
from dataclasses import dataclass

from swarm_node.extensions.temporal_clue.worlds import Setting, World


@dataclass(frozen=True)
class Named:
    """A piece by its name."""

    piece: int


@dataclass(frozen=True)
class Murderer:
    """The murderer, whoever it is."""


@dataclass(frozen=True)
class MurderWeapon:
    """The murder weapon, whichever it is."""


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
    """Both in one room."""

    who: Term
    other: Term
    time: int


@dataclass(frozen=True)
class Beside:
    """`who` in the room just `direction` of the other's."""

    who: Term
    direction: str
    other: Term
    time: int


@dataclass(frozen=True)
class Together:
    """Both in this room at some time."""

    who: Term
    other: Term
    room: int


@dataclass(frozen=True)
class Moved:
    """From one room to another, where it arrived at `time`, with a weapon (None: unknown)."""

    who: Term
    begin: int
    end: int
    time: int
    weapon: Term | None = None


@dataclass(frozen=True)
class Either:
    """One of the two, not both."""

    one: At
    other: At


@dataclass(frozen=True)
class Equivalent:
    """Both or neither."""

    one: At
    other: At


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


def meant(term: Term, world: World) -> Iterator[int]:
    """The pieces that a term may stand for in this world."""
    match term:
        case Named(piece):
            yield piece
        case Murderer():
            yield world.murderer
        case MurderWeapon():
            yield world.weapon
        case Motivated(motive):
            yield from (suspect for suspect, m in enumerate(world.motives) if m == motive)


def holds(clue: Clue, setting: Setting, world: World) -> bool:  # noqa: PLR0911  (a case per kind of clue)
    """Whether the clue is true of this world."""
    paths = world.paths
    match clue:
        case At(who, room, time):
            return any(paths[p][time] == room for p in meant(who, world))
        case Same(who, other, time):
            return any(paths[p][time] == paths[q][time] for p in meant(who, world) for q in meant(other, world))
        case Beside(who, direction, other, time):
            rooms = [setting.beside(paths[q][time], direction) for q in meant(other, world)]
            return any(paths[p][time] in rooms for p in meant(who, world))
        case Together(who, other, room):
            return any(
                here == there == room
                for p in meant(who, world)
                for q in meant(other, world)
                for here, there in zip(paths[p], paths[q], strict=True)
            )
        case Moved(who, begin, end, time, weapon):
            return _moves(who, begin, end, time, world) and (weapon is None or _moves(weapon, begin, end, time, world))
        case Either(one, other):
            return holds(one, setting, world) != holds(other, setting, world)
        case Equivalent(one, other):
            return holds(one, setting, world) == holds(other, setting, world)
        case HasMotive(suspect, motive):
            return world.motives[suspect] == motive
        case Solution(part, value):
            return solution_of(world)[part] == value


def solution_of(world: World) -> dict[str, int]:
    """The answer to the five questions, as numbers. No motive if the setting has none."""
    answer = {"murderer": world.murderer, "weapon": world.weapon, "room": world.scene, "time": world.time}
    return {**answer, "motive": world.motives[world.murderer]} if world.motives else answer


def _moves(who: Term, begin: int, end: int, time: int, world: World) -> bool:
    return any((world.paths[p][time - 1], world.paths[p][time]) == (begin, end) for p in meant(who, world))
