"""What a node may take of the machine that it is a guest of, and when."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from swarm_node.settings.sections import Count, Section, Words

PAUSE_FILE = "paused"  # in the home: it works for a node that runs, and for one that starts later
VALIDATE_FILE = "validate"  # in the home: the node validates after this round, and removes the file

Span = tuple[int, int]  # minutes of the day


def spans_of(text: str) -> list[Span]:
    """ "22-7,12:30-13" as minutes of the day, from and to. ValueError for what is no such text."""
    return [_span(part) for part in text.replace(" ", "").split(",") if part]


def _span(part: str) -> Span:
    start, dash, end = part.partition("-")
    if not dash:
        raise ValueError("should be hours from and to, such as 22-7 or 12:30-14")
    return _minute(start), _minute(end)


def _minute(text: str) -> int:
    hour, _, minute = text.partition(":")
    if not hour.isascii() or not hour.isdigit() or not (minute or "0").isdigit():
        raise ValueError("should be hours from and to, such as 22-7 or 12:30-14")
    total = int(hour) * 60 + int(minute or 0)
    if int(minute or 0) > 59 or total > 24 * 60:
        raise ValueError("should be hours from 0 to 24, such as 22-7")
    return total % (24 * 60)


def _checked(text: str) -> str:
    spans_of(text)
    return text


class LimitsConfig(Section):
    """What a node may take of the machine it is a guest of, and when. `swarm-node pause` and
    `resume` come on top.
    """

    hours: Annotated[str, AfterValidator(_checked), Words()] = ""
    """Hours of the day, local time, in which it works, such as 22-7 or 9-12,14-18. Else it rests.
    Empty: all.
    """
    battery: Literal["train", "pause"] = "train"
    """On a laptop that runs on battery: pause stops until it is plugged in."""
    traffic: Count = 0
    """Megabytes exchanged with others in a calendar month, both ways; beyond it the node trains
    alone until the next. What keeps connections open is not counted, and ends with them. 0 sets no
    limit.
    """
    memory: Count = 0
    """Megabytes that training may take of the device that trains: of a GPU, or, by its plan, of
    this machine's memory. Network and scoring are processes of their own, and come on top. 0: all
    that is free.
    """
    stop_seconds: Annotated[float, Field(gt=0.0)] = 9.0
    """Seconds that a stop may take after SIGTERM or SIGHUP, saving included. A round that does not
    end in that time is given up, and the node saves what it had learned before that round. Set it a
    little below the time after which your supervisor kills; docker kills after 10 s.
    """
