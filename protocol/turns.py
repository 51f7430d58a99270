"""What a policy writes: a turn, and the calls in it. Plain values, for every process.

A message holds them as objects with bounded fields (`messages.Episode`). Scoring processes, which
load no pydantic, hand them to environments. So nothing is checked here: text from a peer has passed
the bounds of its message, and text of this node passes them when it enters one.
"""

from typing import NamedTuple


class Call(NamedTuple):
    """What a policy asks of a tool."""

    name: str
    arguments: str  # as the policy wrote them: JSON, or not. The protocol does not parse them


class Turn(NamedTuple):
    """What a policy generated at one go."""

    text: str  # outside calls
    calls: tuple[Call, ...] = ()
