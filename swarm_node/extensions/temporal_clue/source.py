"""Generated puzzles as a source of questions for a scoring process (`scoring/contract.py`). Only this file loads
the solver. The dataset names the scorer: "temporal_clue" is ours, "compat" the published one."""

from functools import cached_property

from swarm_node.extensions.temporal_clue import generate, scoring, sizes, text

version = sizes.VERSION
COMPAT = "compat"


class PuzzleItem:
    """One puzzle with its reference answers."""

    def __init__(self, puzzle: generate.Puzzle, published_scorer: bool) -> None:
        self._puzzle, self._published_scorer = puzzle, published_scorer

    @cached_property
    def prompt(self) -> str:
        return text.prompt(self._puzzle)

    @cached_property
    def key(self) -> dict[str, str]:
        return text.key(self._puzzle)

    def score(self, answer: str) -> float:
        if self._published_scorer:
            return scoring.compat(answer, self.key)
        return scoring.score(answer, self.key, text.options(self._puzzle.setting))


def build(dataset: str, config_id: str, seed: int, index: int) -> PuzzleItem:
    """The puzzle at this address. KeyError for an unknown config id."""
    return PuzzleItem(generate.generate(config_id, seed, index), dataset == COMPAT)
