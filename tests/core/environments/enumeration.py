"""All worlds of a small setting, one after the other: a check of CP-SAT's results without it."""

from collections.abc import Iterator
from itertools import islice, pairwise, permutations, product

from swarm_node.environments.temporal_clue.clues import holds
from swarm_node.environments.temporal_clue.generate import Puzzle
from swarm_node.environments.temporal_clue.worlds import Setting, World


def worlds(setting: Setting) -> Iterator[World]:
    """Every world that the rules allow."""
    rooms, times = range(len(setting.rooms)), len(setting.times)
    paths = list(product(rooms, repeat=times))
    strolls = [path for path in paths if walks(setting, path)]
    motives = set(
        permutations([m for m, count in enumerate(setting.motive_counts) for _ in range(count)])
    )
    for people in product(strolls, repeat=setting.victim + 1):
        deeds = [
            (who, t)
            for t in range(times)
            for who in range(setting.victim)
            if _alone(setting, people, who, t)
        ]
        if not deeds:
            continue
        carried = [path for path in paths if is_carried(setting, people, path)]
        for weapons in product(carried, repeat=len(setting.weapons)):
            for murderer, time in deeds:
                for weapon, path in zip(setting.weapon_pieces, weapons, strict=True):
                    if path[time] == people[murderer][time]:
                        for assigned in motives:
                            yield World((*people, *weapons), assigned, murderer, weapon, time)


def walks(setting: Setting, path: tuple[int, ...]) -> bool:
    """Whether every step stays or goes to a neighbouring room."""
    return all(there in setting.reach[here] for here, there in pairwise(path))


def is_carried(
    setting: Setting, paths: tuple[tuple[int, ...], ...], weapon: tuple[int, ...]
) -> bool:
    """Whether some suspect went along with the weapon whenever it moved."""
    people = [set(enumerate(pairwise(path))) for path in paths[: setting.victim]]
    return all(
        here == there or any((time, (here, there)) in steps for steps in people)
        for time, (here, there) in enumerate(pairwise(weapon))
    )


def size(setting: Setting) -> int:
    """How many combinations of paths there are to look through, about."""
    rooms, times = len(setting.rooms), len(setting.times)
    strolls = sum(walks(setting, path) for path in product(range(rooms), repeat=times))
    weapons: int = (rooms**times) ** len(setting.weapons)
    people: int = strolls ** (setting.victim + 1)
    return people * weapons


def check(puzzle: Puzzle) -> str:
    """What is wrong with the puzzle; "" where it has exactly one solution, the right one, and needs
    every clue.
    """
    spared = [0] * len(puzzle.clues)  # worlds that all other clues allow and this one excludes
    solutions = []
    for world in worlds(puzzle.setting):
        wrong = (k for k, clue in enumerate(puzzle.clues) if not holds(clue, puzzle.setting, world))
        broken = list(islice(wrong, 2))
        if not broken:
            solutions.append(world)
        elif len(broken) == 1:
            spared[broken[0]] += 1
    if solutions != [puzzle.world]:
        return f"{len(solutions)} solutions"
    return "" if all(spared) else f"clue {spared.index(0)} can be dropped"


def _alone(setting: Setting, people: tuple[tuple[int, ...], ...], murderer: int, time: int) -> bool:
    """Whether only this suspect was with the victim, at a place that it has not left since."""
    victim = people[setting.victim]
    stays = all(room == victim[time] for room in victim[time:])
    return stays and [s for s in range(setting.victim) if people[s][time] == victim[time]] == [
        murderer
    ]
