"""Names of the keys of a JSON value, joined by dots. Keys that are data (arms, tasks, reasons) are not among them."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

ARMS = ("arms", "cost")  # of report.json: their keys are arms, and what is in them is as it is for any arm
COUNTS = ("reward_by_task", "final_reward_by_task", "skipped", "rejected", "counters", "CellRound.attack")


def names(value: Any, key: str = "") -> Iterator[str]:
    """Lists are looked into, too; a name may come several times."""
    if key:
        yield key
    if key.endswith(COUNTS):
        return
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from names(inner, ".".join(filter(None, (key, "*" if key in ARMS else name))))
    elif isinstance(value, list):
        for inner in value:
            yield from names(inner, f"{key}[]")


def of_events(events: Iterable[Mapping[str, Any]]) -> set[str]:
    """With the kind of the event before each name."""
    return {name for event in events for name in names(event, event["event"])}
