"""Any reasoning-gym question, with "wrong, try again"."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from swarm_node.environments.reasoning_gym.catalogue import VERSION
from swarm_node.environments.reasoning_gym.scorers.scorers import score_with
from swarm_node.environments.rewards import is_right
from swarm_node.scoring.contract import Step, Turn
from swarm_node.scoring.tools import use

PREFIX = "second_try."  # of the data set's name
version, turns, probe = f"1-{VERSION}", 2, (Turn(""), Turn("0"))


@dataclass
class SecondTry:
    """One question; what was said last counts."""

    prompt: str
    name: str
    entry: Mapping[str, Any]
    left: int = turns
    reached: float = 0.0

    def step(self, turn: Turn) -> Step:
        self.left -= 1
        self.reached = score_with(self.name, self.entry, turn.text)
        if is_right(self.reached) or not self.left:
            return Step((), done=True)
        return Step(tuple(use({}, call) for call in turn.calls) or ("wrong, try again",))

    def score(self) -> float:
        return self.reached
