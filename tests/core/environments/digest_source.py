"""The library's questions with question, answer and metadata in place of the prompt, to compare two processes."""

import hashlib

from swarm_node.environments.reasoning_gym import source
from swarm_node.scoring import contract

contract.QUESTION_BUDGET = 20.0  # what the questions are is compared, not how long they take
version = source.version


class Digest:
    def __init__(self, item: source.LibraryItem) -> None:
        self.prompt = hashlib.sha256(repr(item.entry).encode("utf-8", "backslashreplace")).hexdigest()

    def score(self, text: str) -> float:
        return 0.0


def build(dataset: str, config_id: str, seed: int, index: int) -> Digest:
    return Digest(source.build(dataset, config_id, seed, index))
