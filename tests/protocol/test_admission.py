"""What is admitted, and the one reason for each refusal."""

from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from protocol import codec, limits
from protocol.admission import AdmissionRules, admit
from protocol.identity import Identity, peer_id
from protocol.rejection import Reason, Rejected
from tests.groups import group

SWARM = "test-swarm"


def reason(data: bytes, rules: AdmissionRules) -> Reason | None:
    outcome = admit(data, rules)
    return outcome.reason if isinstance(outcome, Rejected) else None


@pytest.mark.slow
@given(st.lists(st.text(max_size=40), min_size=2, max_size=8), st.integers(0, limits.MAX_ROUND), st.integers(0, 255))
def test_what_a_peer_sealed_for_this_swarm_comes_in_unchanged(
    ann: Identity, bobs_rules: AdmissionRules, texts: list[str], round: int, index: int
) -> None:
    sent = group(ann.peer_id, round=round, index=index, texts=texts)
    assert admit(codec.seal(sent, ann, SWARM), bobs_rules) == sent


def test_a_message_with_any_flipped_bit_is_refused(ann: Identity, bobs_rules: AdmissionRules) -> None:
    sealed = codec.seal(group(ann.peer_id), ann, SWARM)
    for bit in range(8 * len(sealed)):
        flipped = bytearray(sealed)
        flipped[bit // 8] ^= 1 << bit % 8
        assert reason(bytes(flipped), bobs_rules), bit


def test_a_message_with_any_changed_byte_is_refused(ann: Identity, bobs_rules: AdmissionRules) -> None:
    sealed = codec.seal(group(ann.peer_id), ann, SWARM)
    for position, byte in enumerate(sealed):
        for other in {0, 0x20, 0x30, 0x41, 0xFF, byte ^ 1} - {byte}:
            changed = sealed[:position] + bytes([other]) + sealed[position + 1 :]
            assert reason(changed, bobs_rules), (position, other)


def test_a_message_cut_anywhere_is_refused(ann: Identity, bobs_rules: AdmissionRules) -> None:
    sealed = codec.seal(group(ann.peer_id), ann, SWARM)
    assert {reason(sealed[:length], bobs_rules) for length in range(len(sealed))} == {Reason.MALFORMED}


@given(st.binary(max_size=400))
@example(b"")
@example(bytes(64))
@example(b"\xff" * 5000)
def test_any_bytes_are_refused_and_nothing_raises(bobs_rules: AdmissionRules, data: bytes) -> None:
    assert reason(data, bobs_rules)


@given(st.text(max_size=80))
def test_any_author_text_is_refused_and_nothing_raises(ann: Identity, bobs_rules: AdmissionRules, author: str) -> None:
    sent = group(ann.peer_id).model_copy(update={"author": author})
    assert reason(codec.seal(sent, ann, SWARM), bobs_rules) in {Reason.BAD_AUTHOR, Reason.MALFORMED}


def test_a_message_over_the_limit_is_too_big(bobs_rules: AdmissionRules) -> None:
    assert reason(bytes(limits.MAX_MESSAGE_BYTES + 1), bobs_rules) is Reason.TOO_BIG
    assert reason(bytes(limits.MAX_MESSAGE_BYTES), bobs_rules) is Reason.MALFORMED


def test_a_payload_without_signature_is_malformed(ann: Identity, bobs_rules: AdmissionRules) -> None:
    assert reason(codec.encode(group(ann.peer_id)), bobs_rules) is Reason.MALFORMED


def test_a_signed_payload_that_is_not_canonical_is_refused(ann: Identity, bobs_rules: AdmissionRules) -> None:
    payload = codec.encode(group(ann.peer_id, round=3)).replace(b'"round":3', b'"round": 3')
    sealed = ann.sign(codec.rollout_domain(SWARM), payload) + payload
    assert reason(sealed, bobs_rules) is Reason.NOT_CANONICAL


def test_an_author_that_anybody_can_sign_for_is_a_bad_author(ann: Identity, bobs_rules: AdmissionRules) -> None:
    neutral = (1).to_bytes(32, "little")  # with this key, R = key and S = 0 passes OpenSSL for every message
    sent = group(ann.peer_id).model_copy(update={"author": peer_id(neutral)})
    assert reason(neutral + bytes(32) + codec.encode(sent), bobs_rules) is Reason.BAD_AUTHOR


def test_a_group_of_one_signed_by_another_is_refused(ann: Identity, bobs_rules: AdmissionRules) -> None:
    eve = Identity.from_seed_bytes(b"e" * 32)
    assert reason(codec.seal(group(ann.peer_id), eve, SWARM), bobs_rules) is Reason.BAD_SIGNATURE


def test_a_signature_is_not_transferred_to_another_group(ann: Identity, bobs_rules: AdmissionRules) -> None:
    signature, _ = codec.split(codec.seal(group(ann.peer_id), ann, SWARM))
    other = codec.encode(group(ann.peer_id, texts=("4", "six")))
    assert reason(signature + other, bobs_rules) is Reason.BAD_SIGNATURE


def test_a_message_for_another_swarm_is_refused(ann: Identity, bobs_rules: AdmissionRules) -> None:
    for other in ("test-swarm2", "test-swar", "Test-swarm"):
        assert reason(codec.seal(group(ann.peer_id), ann, other), bobs_rules) is Reason.BAD_SIGNATURE


def test_an_own_message_that_comes_back_is_refused(bob: Identity, bobs_rules: AdmissionRules) -> None:
    assert reason(codec.seal(group(bob.peer_id), bob, SWARM), bobs_rules) is Reason.LOCAL_MESSAGE


def test_a_message_forged_in_the_own_name_is_not_taken_for_own(
    ann: Identity, bob: Identity, bobs_rules: AdmissionRules
) -> None:
    assert reason(codec.seal(group(bob.peer_id), ann, SWARM), bobs_rules) is Reason.BAD_SIGNATURE


def test_an_author_cannot_pick_its_questions(ann: Identity, bob: Identity, bobs_rules: AdmissionRules) -> None:
    honest = group(ann.peer_id, round=3)
    others = [group(ann.peer_id, round=4), group(bob.peer_id, round=3)]
    for seed in (0, honest.question.seed ^ 1, *(other.question.seed for other in others)):
        picked = group(ann.peer_id, round=3, seed=seed)
        assert reason(codec.seal(picked, ann, SWARM), bobs_rules) is Reason.WRONG_SEED


@pytest.mark.parametrize(
    "address", [{"dataset": "leg_counting"}, {"dataset": "__import__"}, {"dataset": "..", "config_id": "."}]
)
def test_a_question_the_environment_cannot_rebuild_is_refused(
    ann: Identity, bobs_rules: AdmissionRules, address: dict[str, str]
) -> None:
    assert reason(codec.seal(group(ann.peer_id, **address), ann, SWARM), bobs_rules) is Reason.UNKNOWN_QUESTION


def test_the_environment_is_asked_last(ann: Identity, bobs_rules: AdmissionRules) -> None:
    def must_not_be_asked(question: object) -> bool:
        raise AssertionError(question)

    rules = replace(bobs_rules, max_completions=2, max_completion_chars=5, knows=must_not_be_asked)
    for refused in (
        group(ann.peer_id, seed=0),
        group(ann.peer_id, texts=["4"] * 3),
        group(ann.peer_id, texts=["4", "sixsix"]),
    ):
        assert reason(codec.seal(refused, ann, SWARM), rules)


def test_the_number_of_completions_is_the_receivers_choice(ann: Identity, bobs_rules: AdmissionRules) -> None:
    rules = replace(bobs_rules, max_completions=4)
    reasons = [reason(codec.seal(group(ann.peer_id, texts=["4"] * count), ann, SWARM), rules) for count in range(2, 6)]
    assert reasons == [None, None, None, Reason.TOO_MANY_COMPLETIONS]


def test_a_text_longer_than_the_receiver_wants_is_refused(ann: Identity, bobs_rules: AdmissionRules) -> None:
    rules = replace(bobs_rules, max_completion_chars=5)
    assert reason(codec.seal(group(ann.peer_id, texts=("éé\0\n🐝", "")), ann, SWARM), rules) is None
    assert (
        reason(codec.seal(group(ann.peer_id, texts=("12345", "123456")), ann, SWARM), rules)
        is Reason.COMPLETION_TOO_LONG
    )


@pytest.mark.parametrize("name", ["", "a\0b", "a b", "swarm\n", "ü", "s" * 65])
def test_a_swarm_name_that_could_be_mistaken_is_an_error_of_ours(bobs_rules: AdmissionRules, name: str) -> None:
    with pytest.raises(ValueError, match="swarm name"):
        replace(bobs_rules, swarm=name)
