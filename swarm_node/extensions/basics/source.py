"""Questions of `basics` for a scoring process: shots, then one question. Only the first line of a completion counts.

Held-out questions are apart from all others by text, not by address alone: a hash of a question says on which side it
is, and an address draws until it has a question of its own side.
"""

import hashlib
from dataclasses import dataclass
from functools import cache
from random import Random

from protocol.addressing import is_held_out
from swarm_node.extensions.basics.questions import TASKS, Drawn

version = "1"
FEW = {"few": 4, "more": 8}  # config id -> shots
HELD_OUT_SHARE = 64  # of 256


@dataclass(frozen=True, slots=True)
class Item:
    """One question behind its shots."""

    prompt: str
    answer: str

    def score(self, text: str) -> float:
        return float(text.strip().partition("\n")[0].strip() == self.answer)


def build(dataset: str, config_id: str, seed: int, index: int) -> Item:
    """The question at this address. KeyError for an unknown data set or config id."""
    shots = shots_of(dataset, FEW[config_id])
    question, answer = draw(dataset, Random(f"{dataset}/{seed}/{index}"), is_held_out(seed), {it for it, _ in shots})
    return Item("".join(f"{shot} {its_answer}\n" for shot, its_answer in shots) + question, answer)


@cache
def shots_of(dataset: str, count: int) -> tuple[Drawn, ...]:
    """The same for every peer, and never held-out questions."""
    rng = Random(f"shots of {dataset}")
    shots: dict[str, str] = {}
    while len(shots) < count:
        question, answer = draw(dataset, rng, False, set(shots))
        shots[question] = answer
    return tuple(shots.items())


def draw(dataset: str, rng: Random, held_out: bool, without: set[str]) -> Drawn:
    """The first question of this generator that is on the asked side, and none of `without`."""
    while True:
        question, answer = TASKS[dataset](rng)
        if is_held_out_text(question) == held_out and question not in without:
            return question, answer


def is_held_out_text(question: str) -> bool:
    """Whether this question is asked in evaluations only: a quarter are."""
    return hashlib.sha256(question.encode()).digest()[0] < HELD_OUT_SHARE
