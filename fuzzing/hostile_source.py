"""Every data set of reasoning-gym, loaded by a scoring process: as a node scores it ("ours"), or with the library's own
scorer whatever that does ("library"), which is what the sandbox is for. With "/key", the key in place of the prompt."""

from collections.abc import Mapping
from typing import Any

from reasoning_gym.composite import DatasetSpec

from swarm_node.environments.reasoning_gym import source
from swarm_node.environments.reasoning_gym.catalogue import CATALOGUE
from swarm_node.environments.scoring.scorers import answer_of

version = source.version

SMALL: dict[str, dict[str, Any]] = {  # data sets whose defaults take longer than a question may
    "composite": {"datasets": [DatasetSpec("gcd", 1, {})]},
    "futoshiki": {"max_board_size": 4, "max_difficulty": 0},
    "group_anagrams": {"max_anagram_groups": 2},
    "knight_swap": {"min_nodes": 6, "max_nodes": 6, "min_steps": 2, "max_steps": 6, "impossible_ratio": 0.0},
    "puzzle24": {"max_value": 6},
    "quantum_lock": {"difficulty": 1},
    "sudoku": {"min_empty": 5, "max_empty": 8},
}


class LibraryScored(source.LibraryItem):
    """Scored by the library alone."""

    def __init__(self, name: str, config: Mapping[str, Any], seed: int, index: int) -> None:
        super().__init__(name, config, seed, index)
        self.portable = None

    def score(self, text: str) -> float:
        score: float = self._dataset.score_answer(answer_of(text), self.entry)
        return score


class Key:
    """To tell a right guess from a forgery."""

    def __init__(self, item: source.LibraryItem) -> None:
        self.prompt = str(item.entry["answer"])

    def score(self, text: str) -> float:
        return 0.0


def build(dataset: str, config_id: str, seed: int, index: int) -> source.LibraryItem | Key:
    mode, _, key = config_id.partition("/")
    if mode == "library":
        item: source.LibraryItem = LibraryScored(dataset, SMALL.get(dataset, {}), seed, index)
    else:
        item = source.LibraryItem(dataset, next(iter(CATALOGUE[dataset].values())), seed, index)
    return Key(item) if key else item
