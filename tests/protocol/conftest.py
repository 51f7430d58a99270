"""Builders shared by the protocol tests: two peers, and the rules of one that would admit a group
of the other.
"""

import pytest

from protocol.admission import AdmissionRules
from protocol.identity import Identity

SWARM = "test"


@pytest.fixture(scope="session")
def ann() -> Identity:
    return Identity.from_seed_bytes(b"a" * 32)


@pytest.fixture(scope="session")
def bob() -> Identity:
    return Identity.from_seed_bytes(b"b" * 32)


@pytest.fixture(scope="session")
def bobs_rules(bob: Identity) -> AdmissionRules:
    return AdmissionRules(
        SWARM, bob.peer_id, knows=lambda question: question.dataset == "chain_sum"
    )
