"""What is admitted, and the one reason for each refusal."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from protocol import codec, limits
from protocol.admission import AdmissionRules, admit
from protocol.identity import Identity, peer_id
from protocol.messages import Call, Episode, RolloutGroup, Turn
from protocol.rejection import Reason, Rejected
from protocol.versions import CURRENT
from tests.groups import group

SWARM = "test"
ANN, BOB, EVE = (Identity.from_seed_bytes(letter * 32) for letter in (b"a", b"b", b"e"))


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


NEUTRAL = (1).to_bytes(32, "little")  # with this key, R = key and S = 0 passes OpenSSL for every message


def in_the_name_of(author: str, **address: Any) -> RolloutGroup:
    return group(ANN.peer_id, **address).model_copy(update={"author": author})


def signed(payload: bytes) -> bytes:
    return ANN.sign(CURRENT.domain("rollout-group", SWARM), payload) + payload


@pytest.mark.parametrize(
    ("data", "refusal"),
    [
        (bytes(limits.MAX_MESSAGE_BYTES + 1), Reason.TOO_BIG),
        (bytes(limits.MAX_MESSAGE_BYTES), Reason.MALFORMED),
        (codec.encode(group(ANN.peer_id)), Reason.MALFORMED),  # without a signature
        (signed(codec.encode(group(ANN.peer_id)).replace(b'"round":0', b'"round": 0')), Reason.NOT_CANONICAL),
        (NEUTRAL + bytes(32) + codec.encode(in_the_name_of(peer_id(NEUTRAL))), Reason.BAD_AUTHOR),
        (codec.seal(group(ANN.peer_id), EVE, SWARM), Reason.BAD_SIGNATURE),  # by another
        (
            codec.split(codec.seal(group(ANN.peer_id), ANN, SWARM))[0]  # of another group
            + codec.encode(group(ANN.peer_id, texts=("4", "six"))),
            Reason.BAD_SIGNATURE,
        ),
        *((codec.seal(group(ANN.peer_id), ANN, f"{SWARM}{end}"), Reason.BAD_SIGNATURE) for end in ("2", "-")),
        (codec.seal(group(ANN.peer_id), ANN, SWARM[:-1]), Reason.BAD_SIGNATURE),
        (codec.seal(group(ANN.peer_id), ANN, SWARM.title()), Reason.BAD_SIGNATURE),
        (codec.seal(group(BOB.peer_id), BOB, SWARM), Reason.LOCAL_MESSAGE),  # an own message that comes back
        (codec.seal(group(BOB.peer_id), ANN, SWARM), Reason.BAD_SIGNATURE),  # forged in the own name
    ],
)
def test_what_is_not_of_its_author_and_for_this_swarm_is_refused(
    bobs_rules: AdmissionRules, data: bytes, refusal: Reason
) -> None:
    assert reason(data, bobs_rules) is refusal


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

    rules = replace(bobs_rules, max_episodes=2, max_episode_chars=5, knows=must_not_be_asked)
    for refused in (
        group(ann.peer_id, seed=0),
        group(ann.peer_id, texts=["4"] * 3),
        group(ann.peer_id, texts=["4", "sixsix"]),
    ):
        assert reason(codec.seal(refused, ann, SWARM), rules)


def test_the_number_of_completions_is_the_receivers_choice(ann: Identity, bobs_rules: AdmissionRules) -> None:
    rules = replace(bobs_rules, max_episodes=4)
    reasons = [reason(codec.seal(group(ann.peer_id, texts=["4"] * count), ann, SWARM), rules) for count in range(2, 6)]
    assert reasons == [None, None, None, Reason.TOO_MANY_EPISODES]


def test_several_turns_and_calls_are_refused_until_nodes_replay_them(ann: Identity, bobs_rules: AdmissionRules) -> None:
    plain = group(ann.peer_id)
    turn, call = plain.episodes[0].turns[0], Call(arguments="{}", name="guess")
    for turns in ((turn, turn), (Turn(calls=(call,), text=""),)):
        episodes = (plain.episodes[0], Episode(ended=True, trace="A" * 11, turns=turns))
        sealed = codec.seal(plain.model_copy(update={"episodes": episodes}), ann, SWARM)
        assert reason(sealed, bobs_rules) is Reason.SEVERAL_TURNS


def test_a_text_longer_than_the_receiver_wants_is_refused(ann: Identity, bobs_rules: AdmissionRules) -> None:
    rules = replace(bobs_rules, max_episode_chars=5)
    assert reason(codec.seal(group(ann.peer_id, texts=("éé\0\n🐝", "")), ann, SWARM), rules) is None
    assert (
        reason(codec.seal(group(ann.peer_id, texts=("12345", "123456")), ann, SWARM), rules) is Reason.EPISODE_TOO_LONG
    )


@pytest.mark.parametrize("name", ["", "a\0b", "a b", "swarm\n", "ü", "s" * 65])
def test_a_swarm_name_that_could_be_mistaken_is_an_error_of_ours(bobs_rules: AdmissionRules, name: str) -> None:
    with pytest.raises(ValueError, match="swarm name"):
        replace(bobs_rules, swarm=name)
