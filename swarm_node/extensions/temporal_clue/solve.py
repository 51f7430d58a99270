"""`swarm-node task solve`: solves a puzzle by CP-SAT, generated (by its address) or published (from its text)."""

import json
from collections.abc import Iterator
from pathlib import Path

from swarm_node.common.errors import UserError
from swarm_node.extensions.temporal_clue import clues as c
from swarm_node.extensions.temporal_clue import generate, published, text
from swarm_node.extensions.temporal_clue.sizes import SIZES
from swarm_node.extensions.temporal_clue.solver import Rules
from swarm_node.extensions.temporal_clue.worlds import Setting, World, part_name


def solve(what: str, seed: int, index: int) -> Iterator[str]:
    """Lines that tell the solution. `what`: a size such as temporal_clue/tiny, or a JSON file of puzzles, of which
    `index` counts from 0."""
    config_id = what.removeprefix("temporal_clue/")
    if config_id in SIZES:
        yield from _generated(generate.generate(config_id, seed, index))
    else:
        yield from _from_file(Path(what), index)


def _generated(puzzle: generate.Puzzle) -> Iterator[str]:
    yield text.prompt(puzzle)
    yield ""
    world, note = solutions(puzzle.setting, puzzle.clues)
    asked = zip(text.key(puzzle), puzzle.questions, strict=True)
    yield from (f"{letter}. {generate.answer(question, puzzle.setting, world)}" for letter, question in asked)
    yield from _night(puzzle.setting, world, text.VICTIM)
    yield note


def _from_file(file: Path, index: int) -> Iterator[str]:
    try:
        entries = json.loads(file.expanduser().read_text("utf-8"))
        entry = entries[index]
        address = [entry["config_id"], entry["seed"], entry["index"]] if "config_id" in entry else []
        prompt = "" if address else entry["prompt"]
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise UserError(
            f"{str(file)!r} is neither a size ({', '.join(SIZES)}) nor a puzzle file with a puzzle {index}"
        ) from error
    if address:
        yield from _generated(generate.generate(*address))
        return
    try:
        riddle = published.read(prompt)
        world, note = solutions(riddle.setting, riddle.clues)
        reader = published.Reader(riddle.setting)
        yield prompt
        yield ""
        for letter, question in riddle.questions.items():
            yield f"{letter}. {reader.answer(question, world)}"
    except published.NotUnderstood as error:
        raise UserError(f"puzzle {index} of {file}: {error}") from error
    yield from _night(riddle.setting, world, published.VICTIM)
    yield note


def solutions(setting: Setting, clues: tuple[c.Clue, ...]) -> tuple[World, str]:
    """A world that fits, and a line that tells whether it is the only one."""
    rules = Rules(setting)
    world = rules.another(clues)
    if world is None:
        raise UserError("the clues contradict each other: there is no solution")
    unique = rules.another(clues, [world]) is None
    return world, "This is the only solution." if unique else "There are other solutions."


def _night(setting: Setting, world: World, victim: str) -> Iterator[str]:
    yield ""
    yield "; ".join(f"{part}: {part_name(setting, part, value)}" for part, value in c.solution_of(world).items())
    for name, path in zip((*setting.suspects, victim, *setting.weapons), world.paths, strict=True):
        yield f"{name}: {', '.join(setting.rooms[room] for room in path)}"
