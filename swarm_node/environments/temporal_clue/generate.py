"""From an address to a puzzle: a random world, and a minimal set of true clues that allows no other
world.

The puzzle is a pure function of (version of the size, config id, seed, index). The random stream is
Python's own, seeded by text; the solver is asked only whether another world exists, which depends
on logic, not on its search. Raise DRAWS in sizes.py with every change of what is drawn.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, product
from random import Random

from swarm_node.environments.temporal_clue import clues as c
from swarm_node.environments.temporal_clue.sizes import SIZES, Size, draw_setting
from swarm_node.environments.temporal_clue.solver import ConstraintModel
from swarm_node.environments.temporal_clue.worlds import (
    DIRECTIONS,
    Setting,
    World,
    is_murder,
    part_name,
)

# Probability that somebody walks on, and that a weapon at hand is taken along
STEPS, TAKES = 0.5, 0.8
# Added to a uniform number in [0, 1): clues of families with a larger bias are more often kept.
# These are of the sizes with addresses, whose puzzles must stay as they are, and of `large`.
BIAS = {
    c.Solution: -0.2, c.At: -0.15, c.HasMotive: 0.0, c.Either: 0.1, c.Moved: 0.2, c.Beside: 0.2,
    c.Equivalent: 0.2, c.Same: 0.5, c.Together: 0.8,
}  # fmt: skip
# Those of the published generator, for the size with the published distribution: without and with a
# piece that is named by its deed
PUBLISHED_BIAS = {
    c.Solution: (-0.2, -0.2), c.At: (-0.15, -0.1), c.HasMotive: (0.0, 0.0), c.Beside: (0.2, 0.2),
    c.Same: (0.5, 2.0), c.Together: (0.8, 2.3),
}  # fmt: skip
WALKS, CARRIES = (0.1, 0.2), (0.2, 0.35)  # of `Moved`, without a weapon and with one
EITHER, EQUIVALENT = 0.1, 0.2  # more than the mean of both sentences
# How often a suspect is named by its motive, and murderer and weapon by their deed
BY_MOTIVE, BY_DEED = 0.3, 0.2
MOST = 60  # clues of one family at most, except the two that join sentences


@dataclass(frozen=True)
class Where:
    """A question about a piece at a time; the piece may be named by its motive."""

    who: c.Term
    time: int


Asked = str | Where  # a part of the solution, or whereabouts


@dataclass(frozen=True)
class Puzzle:
    """A world, the clues that determine it, and the questions about it."""

    setting: Setting
    world: World
    clues: tuple[c.Clue, ...]
    questions: tuple[Asked, ...]


def generate(config_id: str, seed: int, index: int) -> Puzzle:
    """The puzzle at this address. Raises KeyError for an unknown config id; Undecided beyond the
    solver's limit.
    """
    size = SIZES[config_id]
    rng = Random(f"temporal_clue/{size.draws}/{config_id}/{seed}/{index}")
    bias = published_bias if size.players else own_bias
    setting = draw_setting(size, rng)
    rules = ConstraintModel(setting)
    while True:
        world = draw_world(setting, rng)
        candidates = true_clues(setting, world, rng)
        if not size.told:
            candidates = [clue for clue in candidates if not isinstance(clue, c.Solution)]
        order = sorted(candidates, key=lambda clue: bias(clue) + rng.random())
        kept = minimal(rules, world, order)
        if kept is not None:
            break
    rng.shuffle(kept)
    questions = ask(setting, world, kept, size, rng)
    return Puzzle(setting, world, tuple(kept), tuple(questions))


def own_bias(clue: c.Clue) -> float:
    """How much more often a clue of this family is kept, in our own sizes."""
    return BIAS[type(clue)]


def published_bias(clue: c.Clue) -> float:
    """How much more often the published generator keeps a clue of this family (in its file
    temporal_clue/scenario.py).
    """
    if isinstance(clue, c.Either | c.Equivalent):
        more = EITHER if isinstance(clue, c.Either) else EQUIVALENT
        return (published_bias(clue.left) + published_bias(clue.right)) / 2 + more
    terms: list[c.Term | None]
    match clue:
        case c.Moved():
            usual, by_deed = WALKS if clue.weapon is None else CARRIES
            terms = [clue.who, clue.weapon]
        case c.Same() | c.Together():
            usual, by_deed = PUBLISHED_BIAS[type(clue)]
            terms = [clue.who, clue.other]
        case _:
            usual, by_deed = PUBLISHED_BIAS[type(clue)]
            terms = [clue.who] if isinstance(clue, c.At) else []
    deeds = [isinstance(term, c.Murderer | c.MurderWeapon) for term in terms]
    return by_deed if any(deeds) else usual


def draw_world(setting: Setting, rng: Random) -> World:
    """Draws random walks of all characters through the house, until in one of them there is a
    moment at which a murder is possible. Returns that world.
    """
    while True:
        paths = _wander(setting, rng)
        moments: list[tuple[int, int, int]] = []
        for time in range(len(setting.times)):
            cut = _cut(setting, paths, time)
            for suspect, weapon in product(range(setting.victim), setting.weapon_pieces):
                if is_murder(setting, cut, suspect, weapon, time):
                    moments.append((time, suspect, weapon))
        if moments:
            time, murderer, weapon = rng.choice(moments)
            motives = [
                motive for motive, count in enumerate(setting.motive_counts) for _ in range(count)
            ]
            rng.shuffle(motives)
            return World(_cut(setting, paths, time), tuple(motives), murderer, weapon, time)


def _wander(setting: Setting, rng: Random) -> list[list[int]]:
    paths = [[rng.randrange(len(setting.rooms))] for _ in range(setting.pieces)]
    for _ in setting.times[1:]:
        before = [path[-1] for path in paths]
        for person in range(setting.victim + 1):
            around = sorted(setting.reach[before[person]] - {before[person]})
            walks = around and rng.random() < STEPS
            paths[person].append(rng.choice(around) if walks else before[person])
        for weapon in setting.weapon_pieces:
            holders = [s for s in range(setting.victim) if before[s] == before[weapon]]
            if holders and rng.random() < TAKES:
                holder = rng.choice(holders)
                paths[weapon].append(paths[holder][-1])
            else:
                paths[weapon].append(before[weapon])
    return paths


def _cut(setting: Setting, paths: list[list[int]], time: int) -> tuple[tuple[int, ...], ...]:
    """These paths, but from `time` on the victim stays where it was."""
    victim = paths[setting.victim]
    rest = [victim[time]] * (len(victim) - time)
    cut = list(map(tuple, paths))
    cut[setting.victim] = tuple(victim[:time] + rest)
    return tuple(cut)


def minimal(rules: ConstraintModel, truth: World, order: list[c.Clue]) -> list[c.Clue] | None:
    """The clues left after dropping, from the first on, each clue without which the truth is still
    the only world.

    This needs no search for each clue. A clue is kept if the kept ones and all after it allow
    another world. So the next one to keep is the last clue whose tail, itself included, suffices.
    Worlds found before give an upper bound without a search, since each must be excluded by some
    clue. None if all clues together allow another world, for example with two weapons at the scene
    and no clue about them.
    """
    kept: list[int] = []
    # For each world found that the kept clues allow: the clues that exclude it
    others: list[frozenset[int]] = []

    def suffices(start: int) -> bool:
        tried = [order[i] for i in kept] + order[start:]
        world = rules.another(tried, [truth])
        if world is None:
            return True
        holding = [c.holds(clue, rules.setting, world) for clue in order]
        others.append(frozenset(i for i, holds in enumerate(holding) if not holds))
        return False

    sufficient = 0  # start of a tail that is known to suffice with the kept clues
    if not suffices(0):
        return None
    while True:
        bound, step = min(map(max, others), default=len(order)), 0
        while sufficient < bound:
            start = max(bound - step, (sufficient + bound + 1) // 2)
            if suffices(start):
                sufficient = start
            else:
                bound, step = min(bound, max(others[-1])), 2 * step or 2
        if bound == len(order):
            return [order[i] for i in kept]
        kept.append(bound)
        sufficient = bound + 1
        others = [excluding for excluding in others if bound not in excluding]


def ask(setting: Setting, world: World, told: list[c.Clue], size: Size, rng: Random) -> list[Asked]:
    """Questions about what no clue tells: first parts of the solution, then whereabouts, as many as
    the size has.
    """
    given = {clue.part for clue in told if isinstance(clue, c.Solution)}
    if len(setting.times) == 1:
        given.add("time")
    parts: list[Asked] = [part for part in c.solution_of(world) if part not in given]
    open_questions: list[Asked] = []
    for time in range(len(setting.times)):
        for piece in range(setting.pieces):
            who: c.Term = c.Named(piece)
            if piece < setting.victim and world.motives:
                motive = world.motives[piece]
                if world.motives.count(motive) == 1:
                    who = rng.choice([who, c.Motivated(motive)])
            if c.At(who, world.paths[piece][time], time) not in told:
                open_questions.append(Where(who, time))
    more = min(size.questions - len(parts), len(open_questions))
    return parts + rng.sample(open_questions, max(0, more))


def answer(asked: Asked, setting: Setting, world: World) -> str:
    """The right answer to a question, as a name of the setting."""
    if isinstance(asked, Where):
        path = world.paths[c.meant(asked.who, setting, world)]
        return setting.rooms[path[asked.time]]
    return part_name(setting, asked, c.solution_of(world)[asked])


def true_clues(setting: Setting, world: World, rng: Random) -> list[c.Clue]:
    """Clues that hold in `world`. They include the places of all pieces, so together they allow no
    other world.
    """
    term = Namer(world, setting, rng)
    places: list[c.Clue] = []
    for piece, path in enumerate(world.paths):
        places += [c.At(c.Named(piece), room, time) for time, room in enumerate(path)]
    clues = list(places)
    clues += [c.Solution(part, value) for part, value in c.solution_of(world).items()]
    clues += [c.HasMotive(suspect, motive) for suspect, motive in enumerate(world.motives)]
    for family in (_meetings, _neighbours, _moves, _together):
        found = list(family(setting, world, term))
        clues += rng.sample(found, min(MOST, len(found)))
    count = min(MOST, len(places)) // 2
    for join in (_either, _equivalent):
        clues += [join(setting, world, term, rng) for _ in range(count)]
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
        rooms = zip(world.paths[p], world.paths[q], strict=True)
        for room in sorted({here for here, there in rooms if here == there}):
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
    halves = [_place(setting, world, term, rng, true=true) for true in (True, False)]
    rng.shuffle(halves)
    return c.Either(*halves)


def _equivalent(setting: Setting, world: World, term: Namer, rng: Random) -> c.Clue:
    """An equivalence of two true sentences, or of two false ones."""
    true = rng.random() < 0.5
    one = _place(setting, world, term, rng, true)
    while (other := _place(setting, world, term, rng, true)) == one:
        pass
    return c.Equivalent(one, other)
