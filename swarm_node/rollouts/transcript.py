"""Episodes as text and as tokens. A turn, and the reply to it, is rendered once, after what was
there before.

A policy writes text. In it `<call>{"name":NAME,"arguments":JSON}</call>` calls a tool and ends the
turn. An environment replies as the user of a chat does, if the chat template leaves earlier turns
as they were. Some templates do not: that of Qwen3 drops past reasoning. With those, and without a
template, a reply has the plain form `<result>...</result>`. Nothing that an environment or a peer
says can look like a call or a result.
"""

import re
from collections.abc import Sequence
from typing import Protocol

from protocol.limits import MAX_ARGUMENT_CHARS, MAX_CALLS, MAX_EPISODE_CHARS
from protocol.messages import Call, Episode, Turn

CALL, CALLED = "<call>", "</call>"
RESULT = "<result>{}</result>"
TAG = re.compile(r"<(?=/?(?:call|result)>)")
HEAD = re.compile(r'\s*\{\s*"name"\s*:\s*"([A-Za-z0-9._+-]{1,64})"\s*,\s*"arguments"\s*:')


class Encoder(Protocol):
    """What `encode_episode` needs of a policy."""

    def encode_completion(self, text: str, *, ended: bool) -> list[int]:
        """Ids of a turn. `ended`: with the end that this policy gives a turn."""
        ...

    def encode_observations(self, observations: Sequence[str], last: int) -> list[int]:
        """Ids of what an environment says to a turn, up to where the next turn starts. `last`: the
        id before them.
        """
        ...


def parse(text: str) -> Turn:
    """The turn in a policy's text. What is not a call of the form above, or is a call too many,
    stays text.
    """
    rest, said, calls = text, "", list[Call]()
    while len(calls) < MAX_CALLS and CALLED in rest:
        inside, _, rest = rest.partition(CALLED)
        before, found, inner = inside.rpartition(CALL)
        call = _call(inner) if found else None
        said += inside + CALLED if call is None else before
        calls += [] if call is None else [call]
    return Turn(calls=tuple(calls), text=said + rest)


def _call(inner: str) -> Call | None:
    head, end = HEAD.match(inner), inner.rstrip()
    if not head or not end.endswith("}"):
        return None
    arguments = end[head.end() : -1].strip()
    return Call(name=head[1], arguments=arguments) if len(arguments) <= MAX_ARGUMENT_CHARS else None


def text_of_turn(turn: Turn) -> str:
    """The inverse of `parse`, with all calls behind the text."""
    calls = (
        f'{CALL}{{"name":"{call.name}","arguments":{_plain(call.arguments)}}}{CALLED}'
        for call in turn.calls
    )
    return _plain(turn.text) + "".join(calls)


def fits(turns: Sequence[Turn]) -> bool:
    """Whether an episode of these turns has at most the `MAX_EPISODE_CHARS` characters of the
    protocol.
    """
    chars = sum(len(turn.text) + sum(len(call.arguments) for call in turn.calls) for turn in turns)
    return chars <= MAX_EPISODE_CHARS


def _plain(text: str) -> str:
    """The text with its tags of calls and results escaped."""
    return TAG.sub("&lt;", text)


def results(observations: Sequence[str]) -> str:
    """The observations of an environment in the plain form, as one line."""
    return "".join(RESULT.format(said.replace("<", "&lt;")) for said in observations) + "\n"


def encode_episode(
    episode: Episode, observations: Sequence[Sequence[str]], encoder: Encoder
) -> tuple[list[int], list[bool]]:
    """Ids of a peer's episode with what this node's environment said, and for each whether the
    policy wrote it.
    """
    ids, mask = list[int](), list[bool]()
    last = len(episode.turns) - 1
    for number, turn in enumerate(episode.turns):
        ended = episode.ended or number < last
        ids += encoder.encode_completion(text_of_turn(turn), ended=ended and not turn.calls)
        mask += [True] * (len(ids) - len(mask))
        if number < last:
            ids += encoder.encode_observations(observations[number], ids[-1] if ids else -1)
            mask += [False] * (len(ids) - len(mask))
    return ids, mask
