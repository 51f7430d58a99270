"""Checks a line of events.jsonl or rollouts.jsonl before any other code uses it.

The folder of a run may be a stranger's, or a backup of one. So every field is checked once, here: a
number is finite, a text and a table have bounds, and a field without a name here is left out. A
wrong line raises ValueError, or KeyError for a missing field, and only that line is lost. Callers
change nothing before a line has passed.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, TypeVar

from swarm_node.rollouts.groups import METRICS, PHASES
from swarm_node.telemetry.samples import COMPLETION_CHARS, COMPLETIONS, MESSAGES, PROMPT_CHARS

MOST_WHOLE = 2**53 - 1  # what a browser counts exactly
MOST_NUMBER = 1e100  # sums over a run stay finite
NAME, LINE = 300, 5000  # characters of a name and of a line for people
NOTE = 60  # characters that samples.py adds to a text that it has cut
MANY = 512  # tasks, authors or facts of one line
REASONS = 64
OVERLAP, CORRECTED = (
    ("wall", "generating", "training", "waiting"),
    ("task", "question", "before", "now"),
)

T = TypeVar("T")
Checks = Mapping[str, Callable[[Any], Any]]  # by the name of a field


def whole(value: Any) -> int:
    """A count, or the number of a round."""
    if not 0 <= (found := _exactly(int, value)) <= MOST_WHOLE:
        raise ValueError("no count")
    return found


def number(value: Any) -> float:
    """A figure: a finite number, and no bool."""
    if not _is_figure(value):
        raise ValueError("no number")
    return float(value)


def text(value: Any, most: int = NAME) -> str:
    """A text, cut after `most` characters."""
    return _exactly(str, value)[:most]


def table(value: Any, of: Callable[[Any], T], most: int = MANY) -> dict[str, T]:
    """Entries by name, the first `most` of them. One without a value (a figure that was not finite)
    is left out.
    """
    return {
        text(name): of(each)
        for name, each in list(_exactly(dict, value).items())[:most]
        if each is not None
    }


def rows(value: Any, of: Callable[[Any], T], most: int) -> list[T]:
    """Entries in order, the first `most` of them."""
    return [of(each) for each in _exactly(list, value)[:most]]


def known(names: Iterable[str], kept: Mapping[str, Any], most: int) -> list[str]:
    """The names that are kept already, and the first new ones, until `kept` has `most` names."""
    found = list(names)
    new = [name for name in found if name not in kept][: max(0, most - len(kept))]
    return [name for name in found if name in kept or name in new]


def figures(record: Mapping[str, Any]) -> dict[str, float]:
    """The metrics in a record, by name, without those that are missing or no numbers."""
    return {name: record[name] for name in METRICS if _is_figure(record.get(name))}


def report(record: Any) -> dict[str, Any]:
    """The report of a round."""
    found = _fields(
        record, REPORT, {"peer_id": "", "rejected": {}, "external_by_peer": {}, "overlap": None}
    )
    return figures(record) | found


def validated(record: Mapping[str, Any]) -> tuple[int, float]:
    """Rounds done, and the reward on held-out questions."""
    return whole(record["round"]), number(record["reward"])


def learned(record: Mapping[str, Any]) -> dict[str, Any]:
    """Returns, checked, what the node has learned: the rewards of held-out questions by task,
    before and now, and questions that were answered wrongly before and are answered correctly now.
    """
    corrected = partial(
        rows, of=partial(_fields, checks=dict.fromkeys(CORRECTED, text)), most=REASONS
    )
    return {
        "before": table(record.get("before", {}), number),
        "now": table(record.get("by_task", {}), number),
        "corrected": corrected(record.get("corrected", [])),
    }


def chosen(record: Mapping[str, Any]) -> dict[str, Any]:
    """The tasks that are practised and those that were dropped, each with its share of right
    answers; and how many were not practised yet.
    """
    return {
        "practised": table(record.get("practised", {}), number),
        "dropped": table(record.get("dropped", {}), number),
        "unasked": whole(record.get("unasked", 0)),
    }


def line(record: Mapping[str, Any]) -> tuple[float, str]:
    """The time of an event, in seconds, and its line for people."""
    return number(record["time"]), text(record["text"], LINE)


def sample(record: Any) -> dict[str, Any]:
    """A scored group and what became of it, as `SampleRing` writes it."""
    return _fields(record, SAMPLE)


def _fields(value: Any, checks: Checks, absent: Mapping[str, Any] = {}) -> dict[str, Any]:
    """The checked value of each field; `absent` has the values of missing fields. KeyError,
    ValueError.
    """
    given = {**absent, **_exactly(dict, value)}
    return {name: check(given[name]) for name, check in checks.items()}


def _exactly(kind: type[T], value: Any) -> T:
    if type(value) is not kind:
        raise ValueError(f"no {kind.__name__}")
    return value


def _is_figure(value: Any) -> bool:
    return type(value) in (int, float) and -MOST_NUMBER <= value <= MOST_NUMBER


def _completion(value: Any) -> dict[str, Any]:
    found = _fields(value, COMPLETION)
    return found | ({"turns": rows(value["turns"], MESSAGE, MESSAGES)} if "turns" in value else {})


def _step(value: Any) -> dict[str, Any]:
    found = _fields(value, {"skipped": COUNTS}, {"skipped": {}})
    return figures(value) | found


def _seconds(value: Any) -> dict[str, float]:
    spent = table(value, number, REASONS)
    return {phase: spent[phase] for phase in PHASES if phase in spent}


def _overlap(value: Any) -> dict[str, float] | None:
    return None if value is None else _fields(value, dict.fromkeys(OVERLAP, number))


FLAG = partial(_exactly, bool)
COUNTS = partial(table, of=whole, most=REASONS)
SAID = partial(text, most=COMPLETION_CHARS + NOTE)
MESSAGE = partial(_fields, checks={"own": FLAG, "text": SAID})
COMPLETION: Checks = {"text": SAID, "reward": number, "advantage": number, "ended": FLAG}
SAMPLE: Checks = {
    "time": number, "round": whole, "author": text, "local": FLAG, "trained": FLAG, "why": text,
    "task": text, "prompt": partial(text, most=PROMPT_CHARS + NOTE), "left_out": whole,
    "completions": partial(rows, of=_completion, most=COMPLETIONS),
}  # fmt: skip
REPORT: Checks = {
    "peer_id": text, "round": whole, "reward_by_task": partial(table, of=number), "skipped": COUNTS,
    "rejected": COUNTS, "step": _step, "seconds": _seconds,
    "external_by_peer": partial(table, of=COUNTS), "overlap": _overlap,
}  # fmt: skip
