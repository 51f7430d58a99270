"""Episodes in the scoring process, some of which misbehave for real; and how strictly a child's
reply is read.
"""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from swarm_node.rollouts.groups import Skipped
from swarm_node.scoring import contract, playing
from swarm_node.scoring.client import Request, ScoringClient, _checked
from swarm_node.scoring.contract import BrokenFrame, Call, Replay, Turn

HOSTILE = str(Path(__file__).with_name("hostile_episodes.py"))
TIMEOUT, CRASHED = Skipped("scoring timeout"), Skipped("scoring crashed")


@pytest.fixture(scope="module")
def scoring() -> Iterator[ScoringClient]:
    with ScoringClient(HOSTILE, "hostile-1", 2.0, memory_limit=512) as client:
        yield client
        assert client.restarts == 0


def episodes(*texts: str, author: int = 1) -> Request:
    """Each text is an episode, with a turn for each of its words."""
    return "talk", "any", author, 0, tuple(tuple(map(Turn, text.split())) for text in texts)


def test_an_episode_is_played_from_its_beginning_whoever_was_played_before(
    scoring: ScoringClient,
) -> None:
    (first,), (again, longer) = (
        scoring.ask([episodes("a b")])[0],
        scoring.ask([episodes("a b", "a b c")])[0],
    )
    assert first == again == Replay(longer.observations[:2], False, 0.25) and longer.score == 0.375
    assert scoring.ask([("talk", "any", 1, 0, None)]) == ["say something"]


def test_what_is_said_at_the_end_is_not_heard_and_turns_behind_it_leave_their_episode_alone(
    scoring: ScoringClient,
) -> None:
    (reply,) = scoring.ask(
        [episodes("end", "end more", "long", "longer", "long long long long more")]
    )
    assert isinstance(reply, list)
    long = "ü" * 4096
    assert reply[:3] == [
        Replay(((),), True, 0.125),
        Skipped("after the end"),
        Replay(((long,),), False, 0.125),
    ]
    assert reply[3:] == [Replay(((),), True, 0.125), Replay((*[(long,)] * 4, ()), True, 0.625)]


REASONS = {
    "hang": TIMEOUT,
    "slow": TIMEOUT,
    "steady " * 8: TIMEOUT,
    "die": CRASHED,
    "forge": CRASHED,
}
REASONS |= dict.fromkeys(("leave", "surrogate", "twice", "number"), Skipped("scorer raised"))
REASONS |= {"nan": Skipped("not a score")}


@pytest.mark.slow
@pytest.mark.parametrize(("text", "reason"), REASONS.items())
def test_an_episode_that_misbehaves_costs_its_group_and_no_other(
    scoring: ScoringClient, text: str, reason: Skipped
) -> None:
    good = scoring.ask([episodes("a", author=2)])
    assert scoring.ask([episodes("a", text), episodes("a", author=2), episodes(text)]) == [
        reason,
        *good,
        reason,
    ]


def test_a_call_is_answered_in_the_same_words_whatever_a_model_wrote(
    scoring: ScoringClient,
) -> None:
    arguments = [
        '{"number": 3}',
        '{"number": "3"}',
        "[3]",
        "{",
        '{"n": 3}',
        '{"number": NaN}',
        "[" * 2000,
        '{"a":' * 99,
    ]
    calls = [Call("half", text) for text in arguments] + [Call("double", "{}")]
    turns = [Turn("", tuple(calls[place : place + 3])) for place in (0, 3, 6)]
    ((replay,),) = scoring.ask([("talk", "any", 1, 0, (tuple(turns),))])
    unread = "error: arguments are a JSON object"
    assert [text for said in replay.observations for text in said] == [
        *(
            "1.5",
            "error: number is a whole number",
            unread,
            unread,
            "error: arguments are number",
            *[unread] * 3,
        ),
        "error: no tool double, but half",
    ]


ASKED = [(Turn("a"), Turn("", (Call("x", "{}"),) * 2))]
HEAD = struct.Struct("<Bd")
SAID = b"\1" + playing.LENGTH.pack(2) + "ü".encode()
PLAYED = HEAD.pack(0, 0.5) + SAID + b"\2" + SAID[1:] * 2


def test_what_a_child_says_is_read_strictly() -> None:
    assert playing.read(PLAYED, ASKED) == [Replay((("ü",), ("ü", "ü")), False, 0.5)]
    assert playing.read(HEAD.pack(0, 1.0) + b"\0\2" + SAID[1:] * 2, ASKED) == [
        Replay(((), ("ü", "ü")), False, 1.0)
    ]
    assert playing.read(HEAD.pack(1, 1.0) + SAID + b"\0", ASKED) == [
        Replay((("ü",), ()), True, 1.0)
    ]
    assert playing.read(HEAD.pack(2, 9.0), ASKED) == ["after the end"]
    huge = b"\1" + playing.LENGTH.pack(4097) + b"a" * 4097
    broken = [PLAYED[:end] for end in range(len(PLAYED))] + [
        PLAYED + b"\0",
        HEAD.pack(6, 0.5) + PLAYED[9:],
    ]
    broken += [
        HEAD.pack(0, score) + PLAYED[9:] for score in (-0.1, 1.1, float("nan"), float("inf"))
    ]
    broken += [PLAYED.replace("ü".encode(), b"\xff\xff"), PLAYED.replace(b"\2\0\0\0", b"\xff" * 4)]
    broken += [
        HEAD.pack(1, 1.0) + PLAYED[9:],
        HEAD.pack(0, 1.0) + SAID + SAID,
        HEAD.pack(0, 1.0) + huge + PLAYED[16:],
    ]
    for said in broken:
        with pytest.raises(ValueError):
            playing.read(said, ASKED)
    assert len(PLAYED) < playing.most_bytes(ASKED)


def test_the_node_takes_no_episode_that_cannot_have_been_played() -> None:
    item: Request = ("talk", "any", 1, 0, tuple(ASKED))
    right: Any = [[["ü"], ["a", "b"]], False, 0.5]
    assert _checked({"played": [right]}, item) == [Replay((("ü",), ("a", "b")), False, 0.5)]
    assert _checked({"played": ["after the end" * 9]}, item) == [
        Skipped(f"{('after the end' * 9)[:39]}…")
    ]
    wrong: list[Any] = [
        [[["\ud800"], ["a", "b"]], False, 0.5],
        [[["ü"], ["a"]], False, 0.5],
        [right[0], True, 0.5],
    ]
    wrong += [[right[0], False, score] for score in (float("nan"), 2.0, "1")] + [
        [right[0], 0, 0.5],
        [],
        None,
        [right],
    ]
    wrong += [
        [[["a" * (contract.MAX_OBSERVATION_CHARS + 1)], ["a", "b"]], False, 0.5],
        [right[0][:1], False, 0.5],
    ]
    for frame in [{"played": [each]} for each in wrong] + [
        {"played": [right] * 2},
        [0.5],
        "text",
        {"played": right},
    ]:
        with pytest.raises(BrokenFrame):
            _checked(frame, item)
    with pytest.raises(BrokenFrame):
        _checked({"played": [right]}, ("talk", "any", 1, 0, ("a",)))
