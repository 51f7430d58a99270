"""Who the nodes of a simulation are."""

import hashlib

from protocol.identity import Identity


def identity(seed: int, node: int) -> Identity:
    """The identity of (seed, index). So a swarm of the same seed gets the same questions in every arm and engine."""
    return Identity.from_seed_bytes(hashlib.sha256(f"{seed}/{node}".encode()).digest())
