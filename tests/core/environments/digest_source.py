"""The library's questions, with a digest of question, answer and metadata as the prompt, to compare
two processes.
"""

import hashlib

from swarm_node.environments.reasoning_gym import source
from swarm_node.scoring import building, contract

building.KEPT_ITEMS = 2048  # keeps all questions
contract.QUESTION_BUDGET = 20.0  # the test compares what the questions are, not how long they take
version = source.version


def build(dataset: str, config_id: str, seed: int, index: int) -> source.LibraryItem:
    item = source.build(dataset, config_id, seed, index)
    item.prompt = hashlib.sha256(repr(item.entry).encode("utf-8", "backslashreplace")).hexdigest()
    return item
