"""Generated puzzles as a source of questions for a scoring process (`scoring/contract.py`): the only place that loads
the solver. The dataset says which scorer: "temporal_clue" ours, "compat" the published one."""

from functools import cached_property

from swarm_node.environments.temporal_clue import generate, scoring, sizes, text

version = sizes.VERSION
COMPAT = "compat"


class PuzzleItem:
    """One puzzle with its key."""

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
    """KeyError for a config id that is not ours."""
    return PuzzleItem(generate.generate(config_id, seed, index), dataset == COMPAT)
