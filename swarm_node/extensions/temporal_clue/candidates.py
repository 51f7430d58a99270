"""True clues about a world, of every family, for the generator to choose from."""

from collections.abc import Iterator
from itertools import combinations
from random import Random

from swarm_node.extensions.temporal_clue import clues as c
from swarm_node.extensions.temporal_clue.worlds import DIRECTIONS, Setting, World

BY_MOTIVE, BY_DEED = 0.3, 0.2  # how often a suspect is named by its motive, and murderer and weapon by their deed
MOST = 60  # clues of one family at most, except the two that join sentences


def true_clues(setting: Setting, world: World, rng: Random) -> list[c.Clue]:
    """Clues that hold in `world`. They include the places of all pieces, so together they allow no other world."""
    term = Namer(world, setting, rng)
    places: list[c.Clue] = [
        c.At(c.Named(piece), room, time) for piece, path in enumerate(world.paths) for time, room in enumerate(path)
    ]
    clues: list[c.Clue] = [*places, *(c.Solution(part, value) for part, value in c.solution_of(world).items())]
    clues += [c.HasMotive(suspect, motive) for suspect, motive in enumerate(world.motives)]
    for family in (_meetings, _neighbours, _moves, _together):
        found = list(family(setting, world, term))
        clues += rng.sample(found, min(MOST, len(found)))
    for join in (_either, _equivalent):
        clues += [join(setting, world, term, rng) for _ in range(min(MOST, len(places)) // 2)]
    return list(dict.fromkeys(clues))


class Namer:
    """Chooses what to call a piece: by its name, its motive, or its part in the murder."""

    def __init__(self, world: World, setting: Setting, rng: Random) -> None:
        self._world, self._setting, self._rng = world, setting, rng

    def __call__(self, piece: int) -> c.Term:
        world, drawn = self._world, self._rng.random()
        if piece == world.murderer and drawn < BY_DEED:
            return c.Murderer()
        if piece == world.weapon and drawn < BY_DEED:
            return c.MurderWeapon()
        if piece < self._setting.victim and world.motives and drawn >= 1 - BY_MOTIVE:
            return c.Motivated(world.motives[piece])
        return c.Named(piece)


def _meetings(setting: Setting, world: World, term: Namer) -> Iterator[c.Clue]:
    for time in range(len(setting.times)):
        for p, q in combinations(range(setting.pieces), 2):
            if world.paths[p][time] == world.paths[q][time]:
                yield c.Same(term(p), term(q), time)


def _together(setting: Setting, world: World, term: Namer) -> Iterator[c.Clue]:
    if len(setting.times) == 1:  # would be the same as a meeting and a place
        return
    for p, q in combinations(range(setting.pieces), 2):
        for room in sorted({a for a, b in zip(world.paths[p], world.paths[q], strict=True) if a == b}):
            yield c.Together(term(p), term(q), room)


def _neighbours(setting: Setting, world: World, term: Namer) -> Iterator[c.Clue]:
    for time in range(len(setting.times)):
        for p, q in combinations(range(setting.pieces), 2):
            for direction in DIRECTIONS:
                if setting.beside(world.paths[q][time], direction) == world.paths[p][time]:
                    yield c.Beside(term(p), direction, term(q), time)


def _moves(setting: Setting, world: World, term: Namer) -> Iterator[c.Clue]:
    for time in range(1, len(setting.times)):
        steps = [(path[time - 1], path[time]) for path in world.paths]
        for person in range(setting.victim + 1):
            begin, end = steps[person]
            if begin != end:
                yield c.Moved(term(person), begin, end, time)
                for weapon in setting.weapon_pieces:
                    if steps[weapon] == steps[person] and person != setting.victim:
                        yield c.Moved(term(person), begin, end, time, term(weapon))


def _place(setting: Setting, world: World, term: Namer, rng: Random, true: bool) -> c.At:
    """A sentence about a place that is true, or one that is false, in this world."""
    while True:
        piece, time = rng.randrange(setting.pieces), rng.randrange(len(setting.times))
        room = world.paths[piece][time] if true else rng.randrange(len(setting.rooms))
        clue = c.At(term(piece), room, time)
        if c.holds(clue, setting, world) == true:
            return clue


def _either(setting: Setting, world: World, term: Namer, rng: Random) -> c.Clue:
    halves = [_place(setting, world, term, rng, true=True), _place(setting, world, term, rng, true=False)]
    rng.shuffle(halves)
    return c.Either(*halves)


def _equivalent(setting: Setting, world: World, term: Namer, rng: Random) -> c.Clue:
    """Of two true sentences or of two false ones."""
    true = rng.random() < 0.5
    one = _place(setting, world, term, rng, true)
    while (other := _place(setting, world, term, rng, true)) == one:
        pass
    return c.Equivalent(one, other)
