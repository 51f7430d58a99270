"""What is admitted, and the one reason for each refusal."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol import codec, limits
from protocol.admission import AdmissionRules, admit
from protocol.identity import Identity
from protocol.messages import Reason, Rejected
from tests.groups import group

SWARM = "test"


def reason(data: bytes, rules: AdmissionRules) -> Reason | None:
    outcome = admit(data, rules)
    return outcome.reason if isinstance(outcome, Rejected) else None


@pytest.mark.slow
@given(
    st.lists(st.text(max_size=40), min_size=2, max_size=8),
    st.integers(0, limits.MAX_ROUND),
    st.integers(0, 255),
)
def test_what_a_peer_sealed_for_this_swarm_comes_in_unchanged(
    ann: Identity, bobs_rules: AdmissionRules, texts: list[str], round: int, index: int
) -> None:
    sent = group(ann.peer_id, round=round, index=index, texts=texts)
    assert admit(codec.seal(sent, ann, SWARM), bobs_rules) == sent


def test_a_message_with_any_flipped_bit_is_refused(
    ann: Identity, bobs_rules: AdmissionRules
) -> None:
    sealed = codec.seal(group(ann.peer_id), ann, SWARM)
    for bit in range(8 * len(sealed)):
        flipped = bytearray(sealed)
        flipped[bit // 8] ^= 1 << bit % 8
        assert reason(bytes(flipped), bobs_rules), bit


def test_the_environment_is_asked_last(ann: Identity, bobs_rules: AdmissionRules) -> None:
    def must_not_be_asked(question: object) -> bool:
        raise AssertionError(question)

    rules = replace(bobs_rules, max_episodes=2, max_episode_chars=5, knows=must_not_be_asked)
    for refused in (
        group(ann.peer_id, seed=0),
        group(ann.peer_id, texts=["4"] * 3),
        group(ann.peer_id, texts=["4", "sixsix"]),
    ):
        assert reason(codec.seal(refused, ann, SWARM), rules)
