"""Questions of `basics` for a scoring process.

Held-out questions are apart from all others by text, not by address alone: a hash of a question says on which side it
is, and an address draws until it has a question of its own side.
"""

from dataclasses import dataclass
from random import Random

from protocol.addressing import is_held_out, is_held_out_text
from swarm_node.extensions.basics.questions import TASKS

version = "1"
SHOTS = {"few": 4, "more": 8}  # by config id: without them no question explains itself


@dataclass(frozen=True, slots=True)
class Item:
    """One question."""

    prompt: str
    answer: str

    def score(self, text: str) -> float:
        return float(text.strip() == self.answer and len(text) <= len(self.answer) + 2)


def build(dataset: str, config_id: str, seed: int, index: int) -> Item:
    """The question at this address: the first that its generator draws on the asked side. KeyError for an unknown data
    set."""
    rng, held_out = Random(f"{dataset}/{seed}/{index}"), is_held_out(seed)
    while True:
        question, answer = TASKS[dataset](rng)
        if is_held_out_text(question) == held_out:
            return Item(question, answer)
