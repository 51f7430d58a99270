"""Episodes that misbehave, each in the way a turn says. Loaded by a scoring process."""

import os
import random
import sys
import time
from collections.abc import Callable
from typing import Any

from swarm_node.scoring.contract import Step, Turn
from swarm_node.scoring.playing import ToolError, use

version, turns, probe = "hostile-1", 8, (Turn("hello"), Turn("end"))


def spend(seconds: float) -> str:
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass
    return "done"


def half(number: object) -> float:
    if not isinstance(number, int):
        raise ToolError("number is a whole number")
    return number / 2


SAID: dict[str, Callable[[], tuple[Any, ...]]] = {
    "hang": lambda: (spend(1e9),),
    "die": lambda: (os._exit(1),),
    "leave": lambda: (sys.exit(0),),
    "slow": lambda: (spend(0.06),),
    "steady": lambda: (spend(0.035),),
    "forge": lambda: (str(os.write(3, bytes(64))),),  # a reply of its own to the parent
    "long": lambda: ("ü" * 4096,),
    "longer": lambda: ("ü" * 4097,),
    "surrogate": lambda: ("\ud800",),
    "twice": lambda: ("one", "two"),
    "number": lambda: (1,),
    "end": lambda: ("not heard",),
}


class Talk:
    prompt = "say something"

    def __init__(self, seed: int) -> None:
        self.rng, self.heard = random.Random(seed), list[str]()

    def step(self, turn: Turn) -> Step:
        self.heard.append(turn.text)
        if turn.text in SAID:
            return Step(SAID[turn.text](), done=turn.text == "end")
        if turn.calls:
            return Step(tuple(use({"half": half}, call) for call in turn.calls))
        return Step((f"{len(self.heard)} {self.rng.random()}",))

    def score(self) -> float:
        return float("nan") if "nan" in self.heard else len(self.heard) / 8


def begin(dataset: str, config_id: str, seed: int, index: int) -> Talk:
    return Talk(seed)
