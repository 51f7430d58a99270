"""Which questions a peer uses in a round. A hash chooses their seed, so nobody can pick one for an easy or slow item.

An author can still choose its key and its round number, which cost next to nothing, and within a round data set,
configuration and index. But none of its rounds has the questions that are held out for evaluation, nor those of a seed
so near that an item may be the same.
"""

import hashlib
from bisect import bisect_left
from functools import cache

from protocol import limits
from protocol.messages import PeerId, Round
from protocol.versions import CURRENT, Version

HELD_OUT = PeerId("evaluation")  # no key makes this id, so no peer asks its questions
FINGERPRINT = PeerId("fingerprint")  # nor does one make this: the author of the questions of a digest
HELD_OUT_ROUNDS = 64  # of up to 256 questions each
HELD_OUT_SHARE = 64  # of 256 texts


def question_seed(swarm: str, author: PeerId, round: Round, version: Version = CURRENT) -> int:
    """Seed, in [0, MAX_SEED], of all questions of this author's round in a swarm. Each environment counts its questions
    from 0."""
    return _peers_seed(version.text("question-seed", swarm, author, str(round)))


def fixed_seed(name: PeerId, round: Round) -> int:
    """The same for a name that no key makes: in every swarm, and in every version, so that evaluations compare."""
    text = f"swarm-node/1/question-seed\0{name}\0{round}".encode()
    return _seed(text) if name == HELD_OUT else _peers_seed(text)


def is_held_out(seed: int) -> bool:
    """Whether questions of this seed could be held-out ones: some data sets make an item of seed and index added."""
    seeds = _held_out()
    near = bisect_left(seeds, seed - limits.MAX_QUESTIONS_PER_ROUND)
    return near < len(seeds) and seeds[near] <= seed + limits.MAX_QUESTIONS_PER_ROUND


def is_held_out_text(question: str) -> bool:
    """Whether a question with this text is asked in evaluations only, as a quarter are, by environments that keep
    theirs apart by text: another address may have the same one."""
    return hashlib.sha256(question.encode()).digest()[0] < HELD_OUT_SHARE


@cache
def _held_out() -> list[int]:
    return sorted(fixed_seed(HELD_OUT, Round(round)) for round in range(HELD_OUT_ROUNDS))


def _peers_seed(text: bytes) -> int:
    """The first that is held out from nobody."""
    while is_held_out(seed := _seed(text)):  # once in 65,000 rounds
        text += b"\0"
    return seed


def _seed(text: bytes) -> int:
    return int.from_bytes(hashlib.sha256(text).digest()[:4], "big") % (limits.MAX_SEED + 1)
