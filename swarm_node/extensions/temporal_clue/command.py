"""`swarm-node task solve`: the solution of a Temporal Clue puzzle."""

from swarm_node.commands.command import Command
from swarm_node.common.errors import UserError
from swarm_node.settings.command_line import from_command_line
from swarm_node.settings.sections import Count, Section

PAGE = """\
usage: swarm-node task solve SIZE|FILE.json [--seed N] [--index N]

The solution of a puzzle: ours by its address, others' from the text of a JSON
file. CP-SAT finds it.

  SIZE         temporal_clue/tiny, small, medium, large or full
  FILE.json    puzzles of others, or ones written by the generator
  --seed N     of the address, where it is one
  --index N    of the address, or the place in the file, from 0"""


class SolveConfig(Section):
    """The solution of a puzzle: ours by its address, others' from their text."""

    what: str = ""
    """temporal_clue/tiny, small, medium, large or full; or a JSON file of puzzles."""
    seed: Count = 0
    """Of the address, where it is one."""
    index: Count = 0
    """Of the address, or the place in the file, from 0."""


def command(argv: list[str]) -> None:
    """Prints the puzzle and its solution."""
    config = from_command_line(SolveConfig, argv, "swarm-node task solve", flags_only=True, first="what")
    if not config.what:
        raise UserError("name a size or a file of puzzles, such as: swarm-node task solve temporal_clue/tiny")
    from swarm_node.extensions.temporal_clue.solve import solve as lines  # now: it loads CP-SAT

    for line in lines(config.what, config.seed, config.index):
        print(line)


SOLVE = Command(SolveConfig, PAGE, command)
