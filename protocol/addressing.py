"""Which questions a peer uses in a round. A hash chooses their seed, so nobody can pick one for an
easy or slow item.

An author can still choose its key and its round number, which cost next to nothing, and within a
round the data set, configuration and index. But no round of any author has the questions that are
held out for evaluation, nor questions of a seed so near a held-out seed that an item may be the
same.
"""

import hashlib
from bisect import bisect_left
from functools import cache

from protocol import limits
from protocol.messages import PeerId, Round
from protocol.versions import CURRENT

HELD_OUT = PeerId("evaluation")  # no key makes this id, so no peer asks its questions
# No key makes this id either: it is the author of the questions of a digest
FINGERPRINT = PeerId("fingerprint")
HELD_OUT_ROUNDS = 64  # of up to 256 questions each
HELD_OUT_SHARE = 64  # of 256 question texts


def question_seed(swarm: str, author: PeerId, round: Round) -> int:
    """Seed, in [0, MAX_SEED], of all questions of this author's round in a swarm. Each environment
    counts its questions from 0.
    """
    return _peers_seed(CURRENT.text("question-seed", swarm, author, str(round)))


def fixed_seed(name: PeerId, round: Round) -> int:
    """The seed of a name that no key makes, the same in every swarm and every version, so that
    evaluations compare.
    """
    text = f"swarm-node/1/question-seed\0{name}\0{round}".encode()
    return _seed(text) if name == HELD_OUT else _peers_seed(text)


def is_held_out(seed: int) -> bool:
    """Whether questions of this seed may be held out: some data sets make an item from the sum of
    seed and index.
    """
    seeds = _held_out()
    near = bisect_left(seeds, seed - limits.MAX_QUESTIONS_PER_ROUND)
    return near < len(seeds) and seeds[near] <= seed + limits.MAX_QUESTIONS_PER_ROUND


def is_held_out_text(question: str) -> bool:
    """Whether environments that hold out questions by text ask this one in evaluations only, as
    they do with a quarter. The seed alone does not keep it apart: a question at another address may
    have the same text.
    """
    return hashlib.sha256(question.encode()).digest()[0] < HELD_OUT_SHARE


@cache
def _held_out() -> list[int]:
    return sorted(fixed_seed(HELD_OUT, Round(round)) for round in range(HELD_OUT_ROUNDS))


def _peers_seed(text: bytes) -> int:
    """The first seed that is not held out. Each further try appends a byte 00 to the text."""
    while is_held_out(seed := _seed(text)):  # once in 65,000 rounds
        text += b"\0"
    return seed


def _seed(text: bytes) -> int:
    first_bytes = hashlib.sha256(text).digest()[:4]
    return int.from_bytes(first_bytes, "big") % (limits.MAX_SEED + 1)
