"""The questions for training and measuring starters: reasoning-gym's generators at the catalogue's
tiny settings.

A node's dataset seeds are below 2^31. The seeds here start at 2^32 and end below 2^34, so no
dataset is shared. Still, questions recur: the tiny tasks have only between 36 and about 1,200
distinct ones, so most prompts of a node were in the training text too. Starters show whether a
hidden skill comes back, not whether it generalises.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from types import MappingProxyType
from typing import Any

import reasoning_gym

from swarm_node.environments.reasoning_gym.catalogue import CATALOGUE, STARTER_TASKS
from swarm_node.environments.rewards import is_right

Settings = Mapping[str, Mapping[str, Any]]  # task -> settings of its generator
NO_CHANGES: Settings = MappingProxyType({})

TRAINING_SEED = 2**32
MEASURING_SEED = 2**33
_ITEMS = 2**30  # length of each dataset; items are made when asked for, so a long one costs nothing

TASKS: tuple[str, ...] = tuple(STARTER_TASKS)


@dataclass(frozen=True, slots=True)
class Item:
    """One question with its reference answer."""

    task: str
    question: str
    answer: str
    score: Callable[[str], float]  # reasoning-gym's own scorer, bound to this item

    def is_right(self, text: str) -> bool:
        """Exact scoring. Partial credit counts as wrong, and so does text on which reasoning-gym's
        scorer raises.
        """
        try:
            return is_right(self.score(text.strip()))
        except (ValueError, ArithmeticError):
            # prime_factorization calls int() on whatever stands between two ×
            return False


class Questions:
    """An endless stream of items for each task, all from one dataset seed.

    `changes` replace settings of the catalogue.
    """

    def __init__(self, seed: int, changes: Settings = NO_CHANGES) -> None:
        self._datasets: dict[str, Any] = {}
        for task in TASKS:
            dataset, config_id = task.split("/")
            settings = {**CATALOGUE[dataset][config_id], **changes.get(task, {})}
            self._datasets[task] = reasoning_gym.create_dataset(
                dataset, seed=seed, size=_ITEMS, **settings
            )

    def sample(self, task: str, random: Random) -> Item:
        """One item of this task."""
        dataset = self._datasets[task]
        entry = dataset[random.randrange(_ITEMS)]

        def score(text: str) -> float:
            return float(dataset.score_answer(text, entry))

        return Item(task, entry["question"], str(entry["answer"]), score)
