"""`swarm-node task solve`: a generated Temporal Clue puzzle with its solution."""

from collections.abc import Iterator

from swarm_node.commands.command import Command
from swarm_node.common.errors import UserError
from swarm_node.extensions.temporal_clue.sizes import SIZES
from swarm_node.settings.command_line import from_command_line
from swarm_node.settings.sections import Count, Section

PAGE = """\
usage: swarm-node task solve SIZE [--seed N] [--index N]

A puzzle of this size, by its address, with its solution.

  SIZE         temporal_clue/tiny, small, medium, large or full
  --seed N     of the address
  --index N    of the address"""


class SolveConfig(Section):
    """A puzzle with its solution."""

    size: str = ""
    """temporal_clue/tiny, small, medium, large or full."""
    seed: Count = 0
    """Of the address."""
    index: Count = 0
    """Of the address."""


def lines(config_id: str, seed: int, index: int) -> Iterator[str]:
    """The puzzle, its answers, and where everybody was."""
    from swarm_node.extensions.temporal_clue import clues, generate, text  # now: they load CP-SAT
    from swarm_node.extensions.temporal_clue.worlds import part_name

    puzzle = generate.generate(config_id, seed, index)
    setting, world = puzzle.setting, puzzle.world
    yield text.prompt(puzzle)
    yield ""
    yield from (f"{letter}. {answer}" for letter, answer in text.key(puzzle).items())
    yield ""
    yield "; ".join(f"{part}: {part_name(setting, part, value)}" for part, value in clues.solution_of(world).items())
    for name, path in zip((*setting.suspects, text.VICTIM, *setting.weapons), world.paths, strict=True):
        yield f"{name}: {', '.join(setting.rooms[room] for room in path)}"


def command(argv: list[str]) -> None:
    """Prints the puzzle and its solution."""
    config = from_command_line(SolveConfig, argv, "swarm-node task solve", flags_only=True, first="size")
    config_id = config.size.removeprefix("temporal_clue/")
    if config_id not in SIZES:
        raise UserError(f"{config.size!r} is no size of a puzzle: name one of {', '.join(SIZES)}")
    for line in lines(config_id, config.seed, config.index):
        print(line)


SOLVE = Command(SolveConfig, PAGE, command)
