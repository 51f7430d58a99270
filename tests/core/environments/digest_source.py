"""The library's questions with question, answer and metadata in place of the prompt, to compare two processes."""

import hashlib

from swarm_node.environments.reasoning_gym import source
from swarm_node.scoring import building, contract

building.KEPT_ITEMS = 2048  # all of them
contract.QUESTION_BUDGET = 20.0  # what the questions are is compared, not how long they take
version = source.version


def build(dataset: str, config_id: str, seed: int, index: int) -> source.LibraryItem:
    item = source.build(dataset, config_id, seed, index)
    item.prompt = hashlib.sha256(repr(item.entry).encode("utf-8", "backslashreplace")).hexdigest()
    return item
