"""Identities of hostile peers that a study must know again, made from a text."""

import hashlib

from protocol.identity import Identity

SYBILS = 8  # identities of one peer that has several


def identities(seed: str, count: int) -> list[Identity]:
    """The identities of a peer with this seed; none without a seed."""
    seeds = [hashlib.sha256(f"{seed}/{number}".encode()).digest() for number in range(count)]
    return [Identity.from_seed_bytes(each) for each in seeds] if seed else []
