"""`swarm-node solve`: the solution of a Temporal Clue puzzle."""

import argparse

from swarm_node.environments.temporal_clue.solve import solve


def command(argv: list[str]) -> None:
    """The solution of a puzzle: ours by its address, others' from the text of a JSON file."""
    parser = argparse.ArgumentParser(prog="swarm-node solve", description=command.__doc__)
    parser.add_argument("what", help="temporal_clue/tiny, small, medium, large or full; or a JSON file of puzzles")
    parser.add_argument("--seed", type=int, default=0, help="of the address, where it is one")
    parser.add_argument("--index", type=int, default=0, help="of the address, or the place in the file, from 0")
    options = parser.parse_args(argv)
    for line in solve(options.what, options.seed, options.index):
        print(line)
