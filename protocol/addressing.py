"""Which questions a peer uses in a round. A hash chooses them, so nobody can pick easy or slow items.

An author can still choose its key and its round number: both cost next to nothing. But none of its rounds has the
questions that are held out for evaluation, nor those of a seed so near that an item may be the same.
"""

import hashlib
from bisect import bisect_left
from functools import cache

from protocol import limits
from protocol.messages import PeerId, Round

HELD_OUT = PeerId("evaluation")  # no key makes this id, so no peer asks its questions
HELD_OUT_ROUNDS = 64  # of up to 256 questions each


def question_seed(author: PeerId, round: Round) -> int:
    """Seed, in [0, MAX_SEED], of all questions of this author's round. Each environment counts its questions from 0."""
    text = f"swarm-node/{limits.VERSION}/question-seed\0{author}\0{round}"
    seed = _seed(text)
    while author != HELD_OUT and is_held_out(seed):  # once in 65,000 rounds
        text += "\0"
        seed = _seed(text)
    return seed


def is_held_out(seed: int) -> bool:
    """Whether questions of this seed could be held-out ones: some data sets make an item of seed and index added."""
    seeds = _held_out()
    near = bisect_left(seeds, seed - limits.MAX_QUESTIONS_PER_ROUND)
    return near < len(seeds) and seeds[near] <= seed + limits.MAX_QUESTIONS_PER_ROUND


@cache
def _held_out() -> list[int]:
    return sorted(question_seed(HELD_OUT, Round(round)) for round in range(HELD_OUT_ROUNDS))


def _seed(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") % (limits.MAX_SEED + 1)
