"""From an address to a puzzle: a random world, and a minimal set of true clues that allows no other world.

The puzzle is a pure function of (version, config id, seed, index). The random stream is Python's own, seeded by text;
the solver is asked only whether another world exists, which depends on logic, not on its search.
"""

from dataclasses import dataclass
from random import Random

from swarm_node.extensions.temporal_clue import clues as c
from swarm_node.extensions.temporal_clue.candidates import true_clues
from swarm_node.extensions.temporal_clue.sizes import SIZES, VERSION, Size, draw_setting
from swarm_node.extensions.temporal_clue.solver import Rules
from swarm_node.extensions.temporal_clue.worlds import Setting, World, is_murder, part_name

STEPS, TAKES = 0.5, 0.8  # probability that somebody walks on, and that a weapon at hand is taken along
BIAS = {  # added to a uniform number in [0, 1): families with more of it are rather kept than dropped
    c.Solution: -0.2, c.At: -0.15, c.HasMotive: 0.0, c.Either: 0.1, c.Moved: 0.2, c.Beside: 0.2, c.Equivalent: 0.2,
    c.Same: 0.5, c.Together: 0.8,
}  # fmt: skip


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
    """The puzzle at this address. KeyError for an unknown config id; Undecided beyond the solver's limit."""
    size = SIZES[config_id]
    rng = Random(f"temporal_clue/{VERSION}/{config_id}/{seed}/{index}")
    setting = draw_setting(size, rng)
    rules = Rules(setting)
    while True:
        world = draw_world(setting, rng)
        candidates = [clue for clue in true_clues(setting, world, rng) if size.told or not isinstance(clue, c.Solution)]
        order = sorted(candidates, key=lambda clue: BIAS[type(clue)] + rng.random())
        kept = minimal(rules, world, order)
        if kept is not None:
            break
    rng.shuffle(kept)
    return Puzzle(setting, world, tuple(kept), tuple(ask(setting, world, kept, size, rng)))


def draw_world(setting: Setting, rng: Random) -> World:
    """Draws random walks until some world has a moment that allows a murder."""
    while True:
        paths = _wander(setting, rng)
        moments = [
            (time, suspect, weapon)
            for time in range(len(setting.times))
            for suspect in range(setting.victim)
            for weapon in setting.weapon_pieces
            if is_murder(setting, _cut(setting, paths, time), suspect, weapon, time)
        ]
        if moments:
            time, murderer, weapon = rng.choice(moments)
            motives = [motive for motive, count in enumerate(setting.motive_counts) for _ in range(count)]
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
            taken = holders and rng.random() < TAKES
            paths[weapon].append(paths[rng.choice(holders)][-1] if taken else before[weapon])
    return paths


def _cut(setting: Setting, paths: list[list[int]], time: int) -> tuple[tuple[int, ...], ...]:
    """The same paths, but from that time on the victim stays where it was."""
    victim = paths[setting.victim]
    rest = [victim[time]] * (len(victim) - time)
    return tuple(tuple(victim[:time] + rest if p == setting.victim else path) for p, path in enumerate(paths))


def minimal(rules: Rules, truth: World, order: list[c.Clue]) -> list[c.Clue] | None:
    """The clues left after dropping, from the first on, each clue without which the truth is still the only world.

    This needs no search for each clue. A clue is kept if the kept ones and all behind it allow another world. So the
    next one to keep is the last clue whose tail, itself included, suffices. Worlds found before give an upper bound
    without a search, since each must be excluded by some clue. None if all clues together allow another world, for
    example with two weapons at the scene and no clue about them.
    """
    kept: list[int] = []
    others: list[frozenset[int]] = []  # for each world found that the kept clues allow: the clues that exclude it

    def suffices(start: int) -> bool:
        world = rules.another([order[i] for i in (*kept, *range(start, len(order)))], [truth])
        if world is not None:
            others.append(frozenset(i for i, clue in enumerate(order) if not c.holds(clue, rules.setting, world)))
        return world is None

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
    """Questions about what no clue tells: first parts of the solution, then whereabouts, as many as the size has."""
    given = {clue.part for clue in told if isinstance(clue, c.Solution)}
    if len(setting.times) == 1:
        given.add("time")
    parts: list[Asked] = [part for part in c.solution_of(world) if part not in given]
    open_questions: list[Asked] = []
    for time in range(len(setting.times)):
        for piece in range(setting.pieces):
            who: c.Term = c.Named(piece)
            if piece < setting.victim and world.motives and world.motives.count(world.motives[piece]) == 1:
                who = rng.choice([who, c.Motivated(world.motives[piece])])
            if c.At(who, world.paths[piece][time], time) not in told:
                open_questions.append(Where(who, time))
    more = min(size.questions - len(parts), len(open_questions))
    return parts + rng.sample(open_questions, max(0, more))


def answer(asked: Asked, setting: Setting, world: World) -> str:
    """The right name, room or time."""
    if isinstance(asked, Where):
        return setting.rooms[world.paths[c.meant(asked.who, setting, world)][asked.time]]
    return part_name(setting, asked, c.solution_of(world)[asked])
