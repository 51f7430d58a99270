"""Generated puzzles as a source of questions for a scoring process (`scoring/contract.py`). Only this file loads
the solver."""

from swarm_node.extensions.temporal_clue import generate, sizes, text
from swarm_node.extensions.temporal_clue.puzzle_file import PuzzleItem

version = sizes.VERSION


def build(dataset: str, config_id: str, seed: int, index: int) -> PuzzleItem:
    """The puzzle at this address. KeyError for an unknown config id."""
    puzzle = generate.generate(config_id, seed, index)
    return PuzzleItem(text.prompt(puzzle), text.key(puzzle), puzzle.setting.names)
