"""Every data set of reasoning-gym as a source for a scoring process. Config ids are modes:
"library" scores by the library's scorers, which only the sandbox bounds; others as a node does.
MODE/key: the prompt is the key.
"""

from copy import deepcopy
from typing import Any

from reasoning_gym.composite import DatasetSpec

from swarm_node.environments.reasoning_gym import source
from swarm_node.environments.reasoning_gym.catalogue import CATALOGUE
from swarm_node.scoring.bound import answer_of

version = source.version

SMALL: dict[str, dict[str, Any]] = {  # data sets whose defaults take longer than a question may
    "composite": {"datasets": [DatasetSpec("gcd", 1, {})]},
    "futoshiki": {"max_board_size": 4, "max_difficulty": 0},
    "group_anagrams": {"max_anagram_groups": 2},
    "knight_swap": {
        "min_nodes": 6,
        "max_nodes": 6,
        "min_steps": 2,
        "max_steps": 6,
        "impossible_ratio": 0.0,
    },
    "puzzle24": {"max_value": 6},
    "quantum_lock": {"difficulty": 1},
    "sudoku": {"min_empty": 5, "max_empty": 8},
}


class LibraryScored:
    """An item that the library's own scorer scores."""

    def __init__(self, item: source.LibraryItem) -> None:
        self.prompt, self._item = item.prompt, item

    def score(self, text: str) -> float:
        entry = deepcopy(self._item.entry)  # some scorers write into their entry
        score: float = self._item.dataset.score_answer(answer_of(text), entry)
        return score


class Key:
    """An item whose prompt is its key, to tell a right guess from a forgery."""

    def __init__(self, item: source.LibraryItem) -> None:
        self.prompt = str(item.entry["answer"])

    def score(self, text: str) -> float:
        return 0.0


def build(
    dataset: str, config_id: str, seed: int, index: int
) -> source.LibraryItem | LibraryScored | Key:
    mode, _, key = config_id.partition("/")
    config = (
        SMALL.get(dataset, {}) if mode == "library" else next(iter(CATALOGUE[dataset].values()))
    )
    item = source.LibraryItem(dataset, config, seed, index)
    if key:
        return Key(item)
    return LibraryScored(item) if mode == "library" else item
