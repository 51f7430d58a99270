"""Builders shared by the protocol tests: a valid group, and the rules of a receiver that would admit it."""

from collections.abc import Callable, Sequence

import pytest

from protocol.addressing import question_seed
from protocol.admission import AdmissionRules
from protocol.identity import Identity
from protocol.messages import Completion, Question, RolloutGroup, Round

SWARM = "test-swarm"


@pytest.fixture(scope="session")
def ann() -> Identity:
    return Identity.from_seed_bytes(b"a" * 32)


@pytest.fixture(scope="session")
def bob() -> Identity:
    return Identity.from_seed_bytes(b"b" * 32)


@pytest.fixture(scope="session")
def make_group() -> Callable[..., RolloutGroup]:
    def make(
        author: Identity, round: int = 3, index: int = 0, texts: Sequence[str] = ("4", "five"), **address: object
    ) -> RolloutGroup:
        known = {"environment": "reasoning_gym", "version": "0.1.25", "dataset": "chain_sum", "config_id": "easy"}
        seed = question_seed(author.peer_id, Round(round))
        return RolloutGroup(
            author=author.peer_id,
            round=round,
            question=Question.model_validate({**known, "seed": seed, "index": index, **address}),
            completions=tuple(Completion(text=text, ended=True) for text in texts),
        )

    return make


@pytest.fixture(scope="session")
def bobs_rules(bob: Identity) -> AdmissionRules:
    return AdmissionRules(SWARM, bob.peer_id, knows=lambda question: question.dataset == "chain_sum")
