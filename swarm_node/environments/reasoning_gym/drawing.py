"""Which question stands at an address of reasoning-gym.

Held-out questions differ from all others in text, not only in address: an address draws questions
until one is on its own side, held out or not (see `addressing.is_held_out_text`).
"""

import random
from collections.abc import Callable
from typing import Protocol, TypeVar

from protocol.addressing import is_held_out, is_held_out_text
from protocol.limits import MAX_SEED

DRAWS = 64  # per address, at most: a data set of few texts may have none on one side


class NoQuestion(Exception):
    """An address without a question: its reference answer is empty, so that no completion could be
    right, or all texts that were drawn are on the other side.
    """


class Drawn(Protocol):
    """A question."""

    @property
    def prompt(self) -> str:
        """Its text."""
        ...


Q = TypeVar("Q", bound=Drawn)


def first_on_its_side(
    dataset: str, config_id: str, seed: int, index: int, make: Callable[[int], Q]
) -> Q:
    """The first question that `make` makes of a seed, and that is on the side of the address.
    Raises NoQuestion.
    """
    again = random.Random(f"{dataset}/{config_id}/{seed}/{index}")
    seeds = [seed, *(again.randint(0, MAX_SEED) for _ in range(DRAWS - 1))]
    for drawn in map(make, seeds):
        if is_held_out_text(drawn.prompt) == is_held_out(seed):
            return drawn
    raise NoQuestion(dataset)
