"""What a line of events.jsonl or rollouts.jsonl has to be, before anybody does anything with it.

The folder of a run may be a stranger's, or a backup of one. So every field is looked at once, here: a number is finite,
a text and a table have bounds, and what has no name here is left out. A line that is wrong raises ValueError (or
KeyError for what it lacks), and costs itself alone. Nothing here is changed before a line is known to be right.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from swarm_node.rollouts.groups import METRICS, PHASES
from swarm_node.telemetry.samples import COMPLETION_CHARS, COMPLETIONS, MESSAGES, PROMPT_CHARS

MOST_WHOLE = 2**53 - 1  # what a browser counts exactly
MOST_NUMBER = 1e100  # sums over a run stay finite
NAME, LINE = 300, 5000  # characters of a name and of a line for people
NOTE = 60  # characters that samples.py adds to a text that it has cut
MANY = 512  # tasks, authors or facts of one line
REASONS = 64

T = TypeVar("T")


class Wrong(ValueError):
    """A value of another kind, or beyond its bounds."""


def whole(value: Any) -> int:
    """A count, or the number of a round."""
    if type(value) is not int or not 0 <= value <= MOST_WHOLE:
        raise Wrong("no count")
    return value


def number(value: Any) -> float:
    """A figure: finite, and no truth value."""
    if type(value) not in (int, float) or not -MOST_NUMBER <= value <= MOST_NUMBER:
        raise Wrong("no number")
    return float(value)


def flag(value: Any) -> bool:
    """True or false."""
    if type(value) is not bool:
        raise Wrong("no truth value")
    return value


def text(value: Any, most: int = NAME) -> str:
    """A text, cut after `most` characters."""
    if type(value) is not str:
        raise Wrong("no text")
    return value[:most]


def table(value: Any, of: Callable[[Any], T], most: int = MANY) -> dict[str, T]:
    """Entries by name, the first `most` of them. One without a value (a figure that was not finite) is left out."""
    if type(value) is not dict:
        raise Wrong("no table")
    return {text(name): of(each) for name, each in list(value.items())[:most] if each is not None}


def rows(value: Any, of: Callable[[Any], T], most: int) -> list[T]:
    """Entries in order, the first `most` of them."""
    if type(value) is not list:
        raise Wrong("no list")
    return [of(each) for each in value[:most]]


def known(names: Iterable[str], kept: Mapping[str, Any], most: int) -> list[str]:
    """Those of `names` that are kept already, and as many new ones as `kept` has room for below `most`."""
    found = list(names)
    new = [name for name in found if name not in kept][: max(0, most - len(kept))]
    return [name for name in found if name in kept or name in new]


def figures(record: Mapping[str, Any]) -> dict[str, float]:
    """The metrics in it, by name; those that it lacks, and those that are no numbers, are left out."""
    found = {name: record.get(name) for name in METRICS}
    return {name: value for name, value in found.items() if _is_figure(value)}  # type: ignore[misc]


def report(record: Any) -> dict[str, Any]:
    """The report of a round."""
    if type(record) is not dict:
        raise Wrong("no report")
    step, seconds, overlap = record["step"], record["seconds"], record.get("overlap")
    if type(step) is not dict:
        raise Wrong("no step")
    spent = table(seconds, number, REASONS)
    return {
        **figures(record),
        "peer_id": text(record.get("peer_id", "")),
        "round": whole(record["round"]),
        "reward_by_task": table(record["reward_by_task"], number),
        "skipped": table(record["skipped"], whole, REASONS),
        "rejected": table(record.get("rejected", {}), whole, REASONS),
        "step": figures(step) | {"skipped": table(step.get("skipped", {}), whole, REASONS)},
        "seconds": {phase: spent[phase] for phase in PHASES if phase in spent},
        "external_by_peer": table(record.get("external_by_peer", {}), lambda each: table(each, whole, REASONS)),
        "overlap": None if overlap is None else {name: number(overlap[name]) for name in OVERLAP},
    }


OVERLAP = ("wall", "generating", "training", "waiting")


def validated(record: Mapping[str, Any]) -> tuple[int, float]:
    """Rounds done, and the reward on held-out questions."""
    return whole(record["round"]), number(record["reward"])


def learned(record: Mapping[str, Any]) -> dict[str, Any]:
    """By task what was right of held-out questions before and now, and answers that were wrong and are right."""
    corrected = rows(record.get("corrected", []), lambda each: table(each, text), REASONS)
    return {
        "before": table(record.get("before", {}), number),
        "now": table(record.get("by_task", {}), number),
        "corrected": [{key: each[key] for key in ("task", "question", "before", "now")} for each in corrected],
    }


def line(record: Mapping[str, Any]) -> tuple[float, str]:
    """When, and a line for people."""
    return number(record["time"]), text(record["text"], LINE)


def sample(record: Mapping[str, Any]) -> dict[str, Any]:
    """A scored group and what became of it, as `SampleRing` writes it."""
    return {
        "time": number(record["time"]),
        "round": whole(record["round"]),
        "author": text(record["author"]),
        "local": flag(record["local"]),
        "trained": flag(record["trained"]),
        "why": text(record["why"]),
        "task": text(record["task"]),
        "prompt": text(record["prompt"], PROMPT_CHARS + NOTE),
        "left_out": whole(record["left_out"]),
        "completions": rows(record["completions"], _completion, COMPLETIONS),
    }


def _completion(value: Any) -> dict[str, Any]:
    if type(value) is not dict:
        raise Wrong("no completion")
    return {
        "text": text(value["text"], COMPLETION_CHARS + NOTE),
        "reward": number(value["reward"]),
        "advantage": number(value["advantage"]),
        "ended": flag(value["ended"]),
        **({"turns": rows(value["turns"], _message, MESSAGES)} if "turns" in value else {}),
    }


def _message(value: Any) -> dict[str, Any]:
    if type(value) is not dict:
        raise Wrong("no message")
    return {"own": flag(value["own"]), "text": text(value["text"], COMPLETION_CHARS + NOTE)}


def _is_figure(value: Any) -> bool:
    return type(value) in (int, float) and -MOST_NUMBER <= value <= MOST_NUMBER
