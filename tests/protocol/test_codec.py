"""One message, one encoding."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from protocol import codec, limits
from protocol.identity import Identity
from protocol.messages import Call, Episode, PeerId, Question, RolloutGroup, Turn
from protocol.rejection import Reason, Rejected
from tests import groups

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
    assert data == json.dumps(json.loads(data), sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


@given(messages, messages)
def test_different_messages_have_different_hashes(one: RolloutGroup, other: RolloutGroup) -> None:
    same = codec.content_hash(codec.encode(one)) == codec.content_hash(codec.encode(other))
    assert same == (one == other)


@given(st.binary(max_size=300))
def test_any_bytes_decode_to_a_message_or_a_reason(data: bytes) -> None:
    assert isinstance(codec.decode(data, RolloutGroup), RolloutGroup | Rejected)


@given(messages, st.data())
def test_whatever_decodes_after_an_edit_has_those_very_bytes(group: RolloutGroup, data: st.DataObject) -> None:
    before = codec.encode(group)
    start = data.draw(st.integers(0, len(before)))
    end = data.draw(st.integers(start, min(len(before), start + 4)))
    edited = before[:start] + data.draw(st.binary(max_size=4)) + before[end:]
    message = codec.decode(edited, RolloutGroup)
    assert isinstance(message, Rejected) or codec.encode(message) == edited


@pytest.fixture(scope="module")
def payload(ann: Identity) -> str:
    return codec.encode(groups.group(ann.peer_id, 3, texts=("a/b é", "two\n"))).decode()


def reason(data: str | bytes) -> Reason | None:
    outcome = codec.decode(data if isinstance(data, bytes) else data.encode("utf-8", "surrogatepass"), RolloutGroup)
    return outcome.reason if isinstance(outcome, Rejected) else None


def test_other_spellings_of_the_same_message_are_not_canonical(payload: str) -> None:
    assert reason(payload) is None
    author = payload[1 : payload.index(",") + 1]
    for spelling in (
        " " + payload,
        payload + "\n",
        payload.replace(",", ", "),
        json.dumps(json.loads(payload), separators=(",", ":")),  # escapes what is not ASCII
        json.dumps(dict(reversed(json.loads(payload).items())), separators=(",", ":"), ensure_ascii=False),  # order
        payload.replace("a/b", "a\\/b"),
        payload.replace("a/b", "\\u0061/b"),
        payload.replace("\\n", "\\u000a"),
        payload.replace("é", "\\u00E9"),
        payload.replace("{", "{" + author, 1),  # the same key twice
        payload.replace('"ended":true', '"ended":false,"ended":true', 1),
    ):
        assert reason(spelling) is Reason.NOT_CANONICAL, spelling


def test_what_is_no_message_is_malformed(payload: str) -> None:
    for data in (
        "",
        "null",
        "[]",
        "{}",
        "NaN",
        payload[:-1],
        payload + "}",
        payload + "{}",
        payload + "\0",
        "\0" + payload,
        "\ufeff" + payload,
        payload.encode("utf-16"),
        payload.encode("latin-1"),  # é alone is not UTF-8
        payload.replace("é", "\ud800"),  # surrogates as bytes
        payload.replace("é", "\\ud800"),  # and as escapes
        payload.replace("é", "\\udc00\\ud800"),
        payload.replace("é", "\x01"),
        payload.replace('"round":3', '"round":3.0'),
        payload.replace('"round":3', '"round":3e0'),
        payload.replace('"round":3', '"round":03'),
        payload.replace('"round":3', '"round":+3'),
        payload.replace('"round":3', '"round":-0.0'),
        payload.replace('"round":3', '"round":-1'),
        payload.replace('"round":3', '"round":"3"'),
        payload.replace('"round":3', '"round":true'),
        payload.replace('"round":3', '"round":null'),
        payload.replace('"round":3', '"round":NaN'),
        payload.replace('"round":3', f'"round":{2**31}'),
        payload.replace('"round":3', '"round":3,"reward":1'),
        payload.replace(',"round":3', ""),
        payload.replace('"ended":true', '"ended":1'),
        payload.replace('"index":0', f'"index":{limits.MAX_QUESTIONS_PER_ROUND}'),
        payload.replace("chain_sum", ""),
        payload.replace("chain_sum", "../chain_sum"),
        payload.replace("chain_sum", "chain_sum\\n"),
        payload.replace("chain_sum", "chain_sum\\u0000"),
        payload.replace("chain_sum", "chain_süm"),
        payload.replace("chain_sum", "c" * (limits.MAX_NAME_CHARS + 1)),
    ):
        assert reason(data) is Reason.MALFORMED, data


def test_minus_zero_is_not_canonical(payload: str) -> None:
    assert reason(payload.replace('"index":0', '"index":-0')) is Reason.NOT_CANONICAL


def test_bombs_are_malformed(payload: str) -> None:
    room = limits.MAX_MESSAGE_BYTES - 1000
    for bomb in ("[" * room, "9" * room, '{"a":' * (room // 5), "[" * 200 + "]" * 200, "[" + "1," * (room // 2) + "1]"):
        assert reason(bomb) is Reason.MALFORMED
        assert reason(payload.replace('"round":3', f'"round":{bomb}')) is Reason.MALFORMED
    junk = ",".join(f'"{key:05}":1' for key in range(room // 10))
    assert reason("{" + junk + "}") is Reason.MALFORMED
    assert reason(payload.replace('{"ended"', '{"x":0},' * (room // 9) + '{"ended"', 1)) is Reason.MALFORMED


def test_a_million_brackets_or_digits_are_refused_before_parsing() -> None:
    for data in (b"[" * 1_000_000, b"9" * 1_000_000):
        assert reason(data) is Reason.TOO_BIG


def test_a_group_too_big_to_travel_is_not_encoded(ann: Identity) -> None:
    group = groups.group(ann.peer_id, texts=["x" * limits.MAX_EPISODE_CHARS] * 4)
    with pytest.raises(ValueError, match="at most 65472 fit"):
        codec.encode(group)


def test_the_biggest_message_travels(ann: Identity) -> None:
    def filled(chars: int) -> RolloutGroup:
        return groups.group(ann.peer_id, texts=[*["x" * limits.MAX_EPISODE_CHARS] * 3, "x" * chars])

    overhead = len(codec.encode(filled(0)))
    fitting = filled(limits.MAX_MESSAGE_BYTES - limits.SIGNATURE_BYTES - overhead)
    assert len(codec.seal(fitting, ann, "s")) == limits.MAX_MESSAGE_BYTES
    assert codec.decode(codec.encode(fitting), RolloutGroup) == fitting


def test_text_that_cannot_be_encoded_cannot_be_held() -> None:
    with pytest.raises(ValidationError):
        Episode.of(text="\ud800", ended=True)


TRACE = "A" * 11


def several(turns: int = 2, calls: int = 0, chars: int = 0, trace: str = TRACE, arguments: int = 0) -> str:
    """A payload whose first episode has such turns; `chars` of text and `arguments` of a call in the first alone."""
    plain: dict[str, object] = {"calls": [], "text": ""}
    first = {"calls": [{"arguments": "x" * arguments, "name": "t"}] * calls, "text": "y" * chars}
    shown = json.loads(codec.encode(groups.group(PeerId("a"))))
    shown["episodes"][0] |= {"trace": trace, "turns": [first, *[plain] * (turns - 1)][:turns]}
    return json.dumps(shown, sort_keys=True, separators=(",", ":"))


def test_episodes_are_bounded_and_say_a_trace_where_there_is_one() -> None:
    most = limits.MAX_EPISODE_CHARS
    for fits, does_not in (
        (several(limits.MAX_TURNS), several(limits.MAX_TURNS + 1)),
        (several(calls=limits.MAX_CALLS), several(calls=limits.MAX_CALLS + 1)),
        (several(calls=1, arguments=2048), several(calls=1, arguments=2049)),
        (several(calls=1, arguments=9, chars=most - 9), several(calls=1, arguments=9, chars=most - 8)),
        (several(1, trace=""), several(1)),
        (several(1, calls=1), several(1, calls=1, trace="")),
        (several(2), several(2, trace="")),
        (several(2), several(2, trace="A" * 10 + "B")),
        (several(1, trace=""), several(0, trace="")),
    ):
        assert reason(fits) is None
        assert reason(does_not) is Reason.MALFORMED
