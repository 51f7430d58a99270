"""The tasks of the starters with a scorer that a completion can hang: what a plug-in may turn out to have."""

from typing import ClassVar

from swarm_node.environments.reasoning_gym import source
from swarm_node.environments.reasoning_gym.catalogue import STARTER

HANG = "hang"


class Item:
    """A question of reasoning-gym."""

    def __init__(self, item: source.LibraryItem) -> None:
        self.prompt, self._item = item.prompt, item

    def score(self, text: str) -> float:
        while text == HANG:
            pass
        return self._item.score(text)


class HangingTasks:
    """An environment from outside."""

    name = "hanging_tasks"
    version = "1"
    tasks: ClassVar[dict[str, list[str]]] = {name: ["tiny"] for name in STARTER}

    def build(self, dataset: str, config_id: str, seed: int, index: int) -> Item:
        """See scoring/contract.py."""
        return Item(source.build(dataset, config_id, seed, index))
