"""One message, one encoding."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from protocol import codec, limits
from protocol.messages import Call, Episode, Question, Rejected, RolloutGroup, Turn

names = st.text("abcXYZ019._+-", min_size=1, max_size=limits.MAX_NAME_CHARS)
holdings = st.binary(min_size=8, max_size=8).map(codec.to_text)
texts = st.text(max_size=60)
calls = st.lists(st.builds(Call, arguments=texts, name=names), max_size=2).map(tuple)
turns = st.builds(Turn, calls=calls, text=texts)


def episode(turns: list[Turn], trace: str, ended: bool) -> Episode:
    plain = len(turns) == 1 and not turns[0].calls
    return Episode(ended=ended, trace="" if plain else trace, turns=tuple(turns))


episodes = st.builds(episode, st.lists(turns, min_size=1, max_size=3), holdings, st.booleans())
questions = st.builds(
    Question,
    environment=names,
    version=names,
    dataset=names,
    config_id=names,
    digest=holdings,
    seed=st.integers(0, limits.MAX_SEED),
    index=st.integers(0, limits.MAX_QUESTIONS_PER_ROUND - 1),
)
messages = st.builds(
    RolloutGroup,
    author=st.text(max_size=limits.MAX_NAME_CHARS),
    round=st.integers(0, limits.MAX_ROUND),
    question=questions,
    episodes=st.lists(episodes, min_size=2, max_size=6).map(tuple),
)


@given(messages)
def test_a_message_survives_the_round_trip(group: RolloutGroup) -> None:
    assert codec.decode(codec.encode(group), RolloutGroup) == group


@given(messages)
def test_the_encoding_is_json_with_sorted_keys_and_no_spaces(group: RolloutGroup) -> None:
    data = codec.encode(group)
    assert (
        data
        == json.dumps(
            json.loads(data), sort_keys=True, separators=(",", ":"), ensure_ascii=False
        ).encode()
    )


@given(messages, messages)
def test_different_messages_have_different_hashes(one: RolloutGroup, other: RolloutGroup) -> None:
    same = codec.content_hash(codec.encode(one)) == codec.content_hash(codec.encode(other))
    assert same == (one == other)


@given(messages, st.data())
def test_whatever_decodes_after_an_edit_has_those_very_bytes(
    group: RolloutGroup, data: st.DataObject
) -> None:
    before = codec.encode(group)
    start = data.draw(st.integers(0, len(before)))
    end = data.draw(st.integers(start, min(len(before), start + 4)))
    edited = before[:start] + data.draw(st.binary(max_size=4)) + before[end:]
    message = codec.decode(edited, RolloutGroup)
    assert isinstance(message, Rejected) or codec.encode(message) == edited


def test_text_that_cannot_be_encoded_cannot_be_held() -> None:
    with pytest.raises(ValidationError):
        Episode.of(text="\ud800", ended=True)
