"""A setting of rooms, people and weapons, and the worlds that its rules allow: solver.py states the
rules.
"""

from dataclasses import dataclass
from functools import cached_property

# What is true of a world or not: ("at", piece, room, time), ("motive", suspect, motive),
Fact = tuple[str | int, ...]
# ("murderer", suspect), ("weapon", piece), ("room", room) and ("time", time)
DIRECTIONS = ("north", "south", "east", "west")


@dataclass(frozen=True)
class Setting:
    """The cast and the place. A piece is a number: suspects first, then the victim, then the
    weapons.
    """

    suspects: tuple[str, ...]
    weapons: tuple[str, ...]
    rooms: tuple[str, ...]  # row by row from the north-west; the last row may be short
    columns: int  # rooms in a full row
    times: tuple[str, ...]  # at least one, in order
    motives: tuple[str, ...] = ()  # empty: the puzzle is not about motives
    motive_counts: tuple[int, ...] = ()  # how many suspects have each motive

    @property
    def victim(self) -> int:
        return len(self.suspects)

    @property
    def names(self) -> tuple[str, ...]:
        """All names that an answer may be."""
        return (*self.suspects, *self.weapons, *self.rooms, *self.times, *self.motives)

    @cached_property
    def weapon_pieces(self) -> range:
        return range(self.victim + 1, self.victim + 1 + len(self.weapons))

    @property
    def pieces(self) -> int:
        return self.victim + 1 + len(self.weapons)

    def beside(self, room: int, direction: str) -> int | None:
        """The room just north (south, east, west) of `room`, if there is one."""
        row, column = divmod(room, self.columns)
        row += {"north": -1, "south": 1}.get(direction, 0)
        column += {"west": -1, "east": 1}.get(direction, 0)
        other = row * self.columns + column
        return other if 0 <= column < self.columns and 0 <= other < len(self.rooms) else None

    @cached_property
    def reach(self) -> tuple[frozenset[int], ...]:
        """For each room, the rooms within one step: itself and its neighbours."""
        within = []
        for room in range(len(self.rooms)):
            beside = [self.beside(room, direction) for direction in DIRECTIONS]
            within.append(frozenset([room, *(other for other in beside if other is not None)]))
        return tuple(within)


@dataclass(frozen=True)
class World:
    """One possible course of the evening: paths, motives and the murder."""

    paths: tuple[tuple[int, ...], ...]  # [piece][time] room
    motives: tuple[int, ...]  # [suspect] motive; empty where the setting has none
    murderer: int  # suspect
    weapon: int  # piece
    time: int

    @property
    def scene(self) -> int:
        return self.paths[self.murderer][self.time]

    @cached_property
    def facts(self) -> frozenset[Fact]:
        """All facts that are true of this world."""
        facts: set[Fact] = {
            ("murderer", self.murderer),
            ("weapon", self.weapon),
            ("room", self.scene),
            ("time", self.time),
        }
        for piece, path in enumerate(self.paths):
            facts.update(("at", piece, room, time) for time, room in enumerate(path))
        facts.update(("motive", suspect, motive) for suspect, motive in enumerate(self.motives))
        return frozenset(facts)


def is_murder(
    setting: Setting, paths: tuple[tuple[int, ...], ...], murderer: int, weapon: int, time: int
) -> bool:
    """Whether murderer, victim and weapon were in one room at that time, with no other suspect, and
    the victim stays there from then on.
    """
    scene = paths[setting.victim][time]
    if paths[weapon][time] != scene:
        return False
    if any(room != scene for room in paths[setting.victim][time:]):
        return False
    suspects = [s for s in range(setting.victim) if paths[s][time] == scene]
    return suspects == [murderer]


def part_name(setting: Setting, part: str, value: int) -> str:
    """The name of a part of the solution: of a murderer, weapon (a piece), room, time or motive."""
    weapons = dict(zip(setting.weapon_pieces, setting.weapons, strict=True))
    names = {
        "murderer": setting.suspects,
        "room": setting.rooms,
        "time": setting.times,
        "motive": setting.motives,
    }
    return weapons[value] if part == "weapon" else names[part][value]
