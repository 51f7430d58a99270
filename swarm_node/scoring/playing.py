"""An episode played from its beginning: what a child does, and how its parent reads what the child
writes.

No process stays with an episode. A generating node plays all turns again with each new one, a
receiving node plays the episode once, and both run this code. A turn may have taken over the child,
so the parent bounds the child's bytes first and then reads them strictly: for each episode a byte
that says how it went, the score, and for each turn the number of observations and each with its
length. An episode that went wrong has no observations. `use` answers calls of an episode's tools in
the same words on every machine, whatever a model wrote.
"""

import copy
import inspect
import json
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any

from swarm_node.common.batched import paired
from swarm_node.scoring import contract
from swarm_node.scoring.contract import Call, Playable, Replay, Turn, is_score

LENGTH = struct.Struct("<I")  # of what follows for a question, and of an observation
_HEAD = struct.Struct("<Bd")
_ON, _DONE, _AFTER_THE_END, _RAISED, _NO_SCORE, _SLOW = range(6)  # how it went
# Of the question
_SKIPS = {_RAISED: contract.SCORER_RAISED, _NO_SCORE: contract.NOT_A_SCORE, _SLOW: contract.TIMEOUT}

Played = list[Replay | str] | str  # one per episode, or why it was skipped; or why all were


def most_bytes(asked: Sequence[Sequence[Turn]]) -> int:
    """The most bytes that a child may write about these episodes: any character takes four bytes at
    most.
    """
    size = len(asked) * (_HEAD.size + 4 * contract.MAX_OBSERVED_CHARS)
    for turn in chain.from_iterable(asked):
        most_observations = max(1, len(turn.calls))
        size += 1 + LENGTH.size * most_observations
    return size


def play(
    began: Playable, asked: Sequence[Sequence[Turn]], clock: Callable[[], float] = time.process_time
) -> bytes:
    """Plays all episodes of a question, in a child. The bytes are for `read`. `clock`: seconds of
    CPU time.
    """
    return b"".join(_episode(began, turns, clock) for turns in asked)


def read(said: bytes, asked: Sequence[Sequence[Turn]]) -> Played:
    """What a child wrote, read in its parent. Raises ValueError for what no child of ours
    writes.
    """
    reader, episodes = _Bytes(said), list[Replay | str]()
    for turns in asked:
        how, score = _HEAD.unpack(reader.take(_HEAD.size))
        if how in _SKIPS:
            return _SKIPS[how]
        if how == _AFTER_THE_END:
            episodes.append(contract.AFTER_THE_END)
            continue
        replay = Replay(tuple(reader.observations() for _ in turns), how == _DONE, score)
        if how > _DONE or not sound(replay, turns):
            raise ValueError("no way for an episode to go")
        episodes.append(replay)
    reader.end()
    return episodes


def sound(replay: Replay, turns: Sequence[Turn]) -> bool:
    """Whether a child of ours can have written this of these turns: an observation for each call,
    or at most one to a turn without calls; none where the episode ends; and text of a bounded
    length.
    """
    sizes = [sum(map(len, said)) for said in replay.observations]
    if not is_score(replay.score):
        return False
    if max(sizes) > contract.MAX_OBSERVATION_CHARS or sum(sizes) > contract.MAX_OBSERVED_CHARS:
        return False
    return _fits(replay.observations, turns[: len(turns) - replay.done])


def _fits(observations: Sequence[Sequence[str]], turns: Sequence[Turn]) -> bool:
    """Whether these turns, and no others, were answered."""
    answered, unanswered = observations[: len(turns)], observations[len(turns) :]
    if any(map(len, unanswered)):
        return False
    for turn, texts in paired(turns, answered):
        # A turn without calls may have an observation
        if not len(turn.calls) <= len(texts) <= max(1, len(turn.calls)):
            return False
    return True


def _episode(began: Playable, turns: Sequence[Turn], clock: Callable[[], float]) -> bytes:
    """The bytes about one episode, also where the environment raises anything, even SystemExit."""
    try:
        how, score, observations = _steps(began, turns, clock)
        said = [_HEAD.pack(how, score)]
        for turn in observations:
            said.append(bytes([len(turn)]))
            for text in turn:
                data = text.encode()
                said += [LENGTH.pack(len(data)), data]
        return b"".join(said)
    except BaseException:  # noqa: BLE001
        return _HEAD.pack(_RAISED, 0.0)


def _steps(
    began: Playable, turns: Sequence[Turn], clock: Callable[[], float]
) -> tuple[int, float, list[tuple[str, ...]]]:
    """How it went, the score and the observations."""
    start, episode, done, paid = clock(), copy.deepcopy(began), False, True
    strict = getattr(began, "strict", False)
    longest: int | None = getattr(began, "longest", None)
    brief = all(longest is None or turn.calls or len(turn.text) <= longest for turn in turns)
    observations: list[tuple[str, ...]] = []
    left, last = contract.MAX_OBSERVED_CHARS, clock()
    for turn in turns:
        if done:
            return _AFTER_THE_END, 0.0, []
        paid = not (strict and turn.calls and turn.text)
        said, done = episode.step(turn) if paid else ((), True)
        paid = paid and not (strict and any(text.startswith(ERROR) for text in said))
        now = clock()
        if now - last > contract.STEP_BUDGET or now - start > contract.EPISODE_BUDGET:
            return _SLOW, 0.0, []
        chars, last = sum(map(len, said)), now
        left -= chars
        done = bool(done) or not paid or chars > contract.MAX_OBSERVATION_CHARS or left < 0
        observations.append(() if done else tuple(said))
    score = episode.score() if paid and brief else 0.0
    if clock() - start > contract.EPISODE_BUDGET:
        return _SLOW, 0.0, []
    if not _fits(observations, turns[: len(turns) - done]):
        return _RAISED, 0.0, []
    if not is_score(score):
        return _NO_SCORE, 0.0, []
    return _DONE if done else _ON, float(score), observations


class _Bytes:
    """Reads what a child wrote, from its beginning. The methods raise ValueError for what no child
    of ours writes.
    """

    def __init__(self, said: bytes) -> None:
        self._said, self._place = said, 0

    def take(self, size: int) -> bytes:
        """The next `size` bytes."""
        self._place += size
        if self._place > len(self._said):
            raise ValueError("less than was said")
        return self._said[self._place - size : self._place]

    def end(self) -> None:
        """Raises ValueError if bytes are left."""
        if self._place < len(self._said):
            raise ValueError("more than was asked for")

    def observations(self) -> tuple[str, ...]:
        """The observations to one turn."""
        (count,) = self.take(1)
        return tuple(self._observation() for _ in range(count))

    def _observation(self) -> str:
        (size,) = LENGTH.unpack(self.take(LENGTH.size))
        return self.take(size).decode()


ERROR = "error: "  # the beginning of the answer to a call that has no result
MOST_BRACKETS = 64  # in arguments: versions of Python differ in how deep they read


class ToolError(Exception):
    """Why a tool has no result: the policy reads it."""


def use(tools: Mapping[str, Callable[..., object]], call: Call) -> str:
    """What a tool returns, as text, or `error: ...` for what a model may do wrong: a tool that is
    not offered, arguments that are not a JSON object or do not fit the tool, or a ToolError of the
    tool.
    """
    try:
        if call.name not in tools:
            raise ToolError(f"no tool {call.name}, but {', '.join(tools) or 'none'}")
        return str(_bound(tools[call.name], _read(call.arguments))())
    except ToolError as error:
        return f"{ERROR}{error}"


def _read(arguments: str) -> dict[str, Any]:
    try:
        if sum(map(arguments.count, "[{")) > MOST_BRACKETS:
            raise ValueError
        found = json.loads(arguments, parse_constant=_no_number)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ToolError("arguments are a JSON object")
    return found


def _no_number(name: str) -> None:
    raise ValueError(name)


def _bound(tool: Callable[..., object], arguments: Mapping[str, Any]) -> Callable[[], object]:
    signature = inspect.signature(tool)
    try:
        bound = signature.bind(**arguments)
    except TypeError as error:
        raise ToolError(f"arguments are {', '.join(signature.parameters) or 'none'}") from error
    return lambda: tool(*bound.args, **bound.kwargs)
