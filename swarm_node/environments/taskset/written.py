"""Episodes and how they went, as the processes of a task set write them to files and read them. It
imports no verifiers, so the node reads them as well.
"""

from collections.abc import Sequence
from typing import Any

from swarm_node.scoring.contract import Call, Replay, Turn


def episodes_of(written: Sequence[Any]) -> tuple[tuple[Turn, ...], ...]:
    """Episodes as a file holds them: [[[text, [[name, arguments], ...]], ...], ...]."""
    return tuple(tuple(_turn(*turn) for turn in turns) for turns in written)


def _turn(text: str, calls: Sequence[Sequence[str]]) -> Turn:
    return Turn(text, tuple(Call(*call) for call in calls))


def how_it_went(replay: Replay) -> list[Any]:
    """The score, whether the environment ended the episode, and what it said to each turn."""
    return [replay.score, replay.done, [list(said) for said in replay.observations]]
