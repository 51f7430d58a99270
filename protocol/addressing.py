"""Which questions a peer asks in a round: a matter of hashing, not of choice, so that nobody picks easy or slow items.

It does not stop an author from choosing its key or its round number: both cost next to nothing.
"""

import hashlib

from protocol import limits
from protocol.messages import PeerId, Round


def question_seed(author: PeerId, round: Round) -> int:
    """Seed, in [0, MAX_SEED], of all questions of this round of this author; each environment counts its own from 0."""
    text = f"swarm-node/{limits.VERSION}/question-seed\0{author}\0{round}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") % (limits.MAX_SEED + 1)
