"""`swarm-node solve`: the solution of a Temporal Clue puzzle."""

import tyro
from tyro.conf import Positional

from swarm_node.commands.table import Command

PAGE = """\
usage: swarm-node solve SIZE|FILE.json [--seed N] [--index N]

The solution of a puzzle: ours by its address, others' from the text of a JSON
file. CP-SAT finds it.

  SIZE         temporal_clue/tiny, small, medium, large or full
  FILE.json    puzzles of others, or ones written by the generator
  --seed N     of the address, where it is one
  --index N    of the address, or the place in the file, from 0"""


def solve(what: Positional[str], seed: int = 0, index: int = 0) -> None:
    """The solution of a puzzle: ours by its address, others' from their text.

    Args:
        what: temporal_clue/tiny, small, medium, large or full; or a JSON file of puzzles.
        seed: Of the address, where it is one.
        index: Of the address, or the place in the file, from 0.
    """
    from swarm_node.environments.temporal_clue.solve import solve as lines  # now: it loads CP-SAT

    for line in lines(what, seed, index):
        print(line)


def command(argv: list[str]) -> None:
    """Prints the puzzle and its solution."""
    tyro.cli(solve, args=argv, prog="swarm-node solve")


SOLVE = Command(solve, PAGE, command)
