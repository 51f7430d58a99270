"""One message, one encoding."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from protocol import codec, limits
from protocol.messages import Completion, Question, RolloutGroup
from protocol.rejection import Rejected

names = st.text("abcXYZ019._+-", min_size=1, max_size=limits.MAX_NAME_CHARS)
completions = st.builds(Completion, text=st.text(max_size=60), ended=st.booleans())
questions = st.builds(
    Question,
    environment=names,
    version=names,
    dataset=names,
    config_id=names,
    seed=st.integers(0, limits.MAX_SEED),
    index=st.integers(0, limits.MAX_QUESTIONS_PER_ROUND - 1),
)
messages = st.builds(
    RolloutGroup,
    author=st.text(max_size=limits.MAX_NAME_CHARS),
    round=st.integers(0, limits.MAX_ROUND),
    question=questions,
    completions=st.lists(completions, min_size=2, max_size=6).map(tuple),
)


@given(messages)
def test_a_message_survives_the_round_trip(group: RolloutGroup) -> None:
    assert codec.decode(codec.encode(group), RolloutGroup) == group


@given(messages)
def test_the_encoding_is_json_with_sorted_keys_and_no_spaces(group: RolloutGroup) -> None:
    data = codec.encode(group)
    assert data == json.dumps(json.loads(data), sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


@given(messages, messages)
def test_different_messages_have_different_hashes(one: RolloutGroup, other: RolloutGroup) -> None:
    same = codec.content_hash(codec.encode(one)) == codec.content_hash(codec.encode(other))
    assert same == (one == other)


@given(messages, st.data())
def test_whatever_decodes_after_an_edit_has_those_very_bytes(group: RolloutGroup, data: st.DataObject) -> None:
    before = codec.encode(group)
    start = data.draw(st.integers(0, len(before)))
    end = data.draw(st.integers(start, min(len(before), start + 4)))
    edited = before[:start] + data.draw(st.binary(max_size=4)) + before[end:]
    message = codec.decode(edited, RolloutGroup)
    assert isinstance(message, Rejected) or codec.encode(message) == edited


def test_text_that_cannot_be_encoded_cannot_be_held() -> None:
    with pytest.raises(ValidationError):
        Completion(text="\ud800", ended=True)
