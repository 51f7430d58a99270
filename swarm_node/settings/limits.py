"""What a node may take of the machine that it is a guest of, and when."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from swarm_node.settings.sections import Count, Section, Words

PAUSE_FILE = "paused"  # in the home: it works for a node that runs, and for one that starts later
VALIDATE_FILE = "validate"  # in the home: the node validates after this round, and removes the file

Span = tuple[int, int]  # minutes of the day


def spans_of(text: str) -> list[Span]:
    """ "22-7,12:30-13" as minutes of the day, from and to. Raises ValueError for what is no such
    text.
    """
    return [_span(part) for part in text.replace(" ", "").split(",") if part]


def _span(part: str) -> Span:
    start, dash, end = part.partition("-")
    if not dash:
        raise ValueError("should be hours from and to, such as 22-7 or 12:30-14")
    return _minute(start), _minute(end)


def _minute(text: str) -> int:
    hour, _, minute = text.partition(":")
    is_hour = hour.isascii() and hour.isdigit()
    if not is_hour or not (minute or "0").isdigit():
        raise ValueError("should be hours from and to, such as 22-7 or 12:30-14")
    total = int(hour) * 60 + int(minute or 0)
    if int(minute or 0) > 59 or total > 24 * 60:
        raise ValueError("should be hours from 0 to 24, such as 22-7")
    return total % (24 * 60)


def _checked(text: str) -> str:
    spans_of(text)
    return text


class LimitsConfig(Section):
    """How much of this machine the node can use, and when. The commands `swarm-node pause` and
    `resume` work in addition.
    """

    hours: Annotated[str, AfterValidator(_checked), Words()] = ""
    """Hours of the day, in local time, in which the node works, such as 22-7 or 9-12,14-18. It
    rests at other times. Empty: it always works.
    """
    battery: Literal["train", "pause"] = "train"
    """What a laptop does when it runs on battery. pause: stop training until it is plugged in."""
    card: Literal["train", "pause"] = "train"
    """What the node does while another program, such as a game, uses its NVIDIA GPU. pause: stop
    training until the GPU has been free for half a minute. Needs the extra `card`.
    """
    card_busy: Annotated[int, Field(ge=0, le=100)] = 20
    """With `limits.card pause`: percent of the time. Another program that keeps the GPU busy for
    longer counts as using it. 0: this does not count.
    """
    card_memory: Count = 2000
    """With `limits.card pause`: megabytes of the GPU. Another program that holds more counts as
    using it. 0: this does not count.
    """
    rest: Literal["keep", "free"] = "keep"
    """What happens to the memory of the GPU while the node rests, for whatever reason. keep: the
    model stays there. free: the model and the optimiser's state wait in the memory of the machine,
    and return when the node continues.
    """
    traffic: Count = 0
    """Megabytes that the node can exchange with others in a calendar month, sent and received
    together. Once the limit is reached, the node trains alone until the next month. The traffic
    that keeps connections open is not counted; it stops as well. 0: no limit.
    """
    memory: Count = 0
    """Megabytes of memory that training can use on the device that trains: of the GPU or, on a CPU,
    of this machine (as the node plans it). The processes for the network and for scoring need
    memory in addition. 0: all that is free.
    """
    download: Count = 500
    """Megabytes that a first run can download without asking, when it chooses a model for your
    GPU. Above that it asks at the terminal. Where nobody is at a terminal, as in most
    containers, it trains smollm2-135m instead, and says what to set here. A model that you name is
    downloaded in any case.
    """
    stop_seconds: Annotated[float, Field(gt=0.0)] = 9.0
    """Seconds that the node has to stop after SIGTERM or SIGHUP, saving included. If the current
    round does not finish in that time it is given up, and the node saves what it had learned before
    that round. Set this a little below the time after which your supervisor kills a process
    (docker: 10 s).
    """
