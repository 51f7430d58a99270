"""What one place says about options: values by key, and how its user wrote each key."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class OptionSource:
    """Values from one place, by their keys: training.learning_rate."""

    kind: str  # "home", "file", "environment" or "flag"
    values: dict[str, Any] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)  # of keys, as the user wrote them
    file: Path | None = None  # of a home
    # Values that a home may not set: where nothing stronger sets these keys, a line names them
    refused: dict[str, Any] = field(default_factory=dict)


def origins(given: Sequence[OptionSource]) -> dict[str, str]:
    """Where each key was set last, as the kind of a source says it. The weakest source is first."""
    return {key: source.kind for source in given for key in source.values}


def name_as_given(key: str, given: Sequence[OptionSource]) -> str:
    """The name under which this key, or the section it is in, was given last."""
    for source in reversed(given):
        if key in source.names:
            return source.names[key]
    for source in reversed(given):
        for other, name in source.names.items():
            if other.startswith(f"{key}.") or key.startswith(f"{other}."):
                return name.removesuffix(other) + key if name.endswith(other) else name
    return key


def nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    """{"a.b": 1} -> {"a": {"b": 1}}. A value in place of a section stays, to be refused later."""
    whole: dict[str, Any] = {}
    for key, value in flat.items():
        *path, last = key.split(".")
        inner: Any = whole
        for part in path:
            inner = inner.setdefault(part, {}) if isinstance(inner, dict) else inner
        empties_a_section = isinstance(inner, dict) and value == {} and last in inner
        if isinstance(inner, dict) and not empties_a_section:
            inner[last] = value
    return whole
