"""Which questions a peer uses in a round. A hash chooses their seed, so nobody can pick one for an easy or slow item.

An author can still choose its key and its round number, which cost next to nothing, and within a round data set,
configuration and index.
"""

import hashlib

from protocol import limits
from protocol.messages import PeerId, Round


def question_seed(author: PeerId, round: Round) -> int:
    """Seed, in [0, MAX_SEED], of all questions of this author's round. Each environment counts its questions from 0."""
    text = f"swarm-node/{limits.VERSION}/question-seed\0{author}\0{round}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") % (limits.MAX_SEED + 1)
