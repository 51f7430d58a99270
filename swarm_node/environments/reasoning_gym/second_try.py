"""Questions of `second_try` for a scoring process: any of reasoning-gym, with "wrong, try
again".
"""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from swarm_node.environments.reasoning_gym.installed import source
from swarm_node.environments.reasoning_gym.scorers.scorers import score_with
from swarm_node.environments.rewards import is_right
from swarm_node.scoring.bound import bound_of
from swarm_node.scoring.contract import Step, Turn
from swarm_node.scoring.playing import use

questions = import_module(source())
version = f"2-{questions.version}"


@dataclass
class SecondTry:
    """One question; the last turn counts."""

    prompt: str
    answer: str
    key: tuple[str, Mapping[str, Any]]  # what its scorer is called with
    left: int = 2
    reached: float = 0.0

    @property
    def longest(self) -> int | None:
        """The most characters of a turn: see `contract.Playable`. None where the key is not the
        only kind of right answer.
        """
        return bound_of(self.answer, lambda text: score_with(*self.key, text))

    def step(self, turn: Turn) -> Step:
        self.left -= 1
        self.reached = score_with(*self.key, turn.text)
        if is_right(self.reached) or not self.left:
            return Step((), done=True)
        return Step(tuple(use({}, call) for call in turn.calls) or ("wrong, try again",))

    def score(self) -> float:
        return self.reached


def begin(dataset: str, config_id: str, seed: int, index: int) -> SecondTry:
    """The question at this address, as in `source.build`; the name of its data set stands after
    `second_try.`
    """
    item = questions.build(dataset.partition(".")[2], config_id, seed, index)
    return SecondTry(item.prompt, item.answer, item.portable)
