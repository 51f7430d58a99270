"""The environment of `lab.studies.unknown`: three digits, and a string of steps of three kinds that change them.

A completion works the steps off: each line says which remain, and the digits so far. Only the last line is scored.
"""

from collections.abc import Callable
from random import Random
from typing import ClassVar

KINDS: dict[str, Callable[[str], str]] = {
    "a": lambda digits: digits[1:] + digits[:1],
    "b": lambda digits: "".join(str((int(digit) + 1) % 10) for digit in digits),
    "c": lambda digits: "".join(str(9 - int(digit)) for digit in digits),
}
MIXED = {"two": 2, "four": 4, "six": 6}


def drawn(random: Random) -> str:
    return "".join(random.choices("0123456789", k=3))


def worked(steps: str, digits: str, take: Callable[[str, str], str] = lambda kind, digits: KINDS[kind](digits)) -> str:
    """All lines, where `take` makes of a kind and the digits before the digits after."""
    lines = []
    while steps:
        digits, steps = take(steps[0], digits), steps[1:]
        lines.append(f"{steps} {digits}".strip())
    return "\n".join(lines)


class Item:
    def __init__(self, steps: str, digits: str) -> None:
        self.prompt, self.answer = f"{steps} {digits}", worked(steps, digits).split("\n")[-1]

    def score(self, text: str) -> float:
        return float(text.split("\n")[-1].strip() == self.answer)


class Steps:
    """One step of a kind, one to three of it, or several of at least two kinds."""

    name, version = "steps", "1"
    tasks: ClassVar = {**{kind: {"one": 1, "few": 3} for kind in KINDS}, "mixed": MIXED}

    def build(self, dataset: str, config_id: str, seed: int, index: int) -> Item:
        random = Random(f"{dataset}/{config_id}/{seed}/{index}")
        digits = drawn(random)
        if dataset != "mixed":
            return Item(dataset * random.randint(1, self.tasks[dataset][config_id]), digits)
        while len(set(steps := "".join(random.choices("abc", k=MIXED[config_id])))) == 1:
            pass
        return Item(steps, digits)
