"""What options are made of: keys, flags and explanations.

An option is a field of a configuration, or of a section in it. Its key says where it stands, as in
a file: training.learning_rate. All that is asked about options is asked by their keys.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from swarm_node.settings.plugged import plugged_sections
from swarm_node.settings.sections import Alias, BareFlag, Earlier


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a configuration."""

    key: str  # as in a file: training.learning_rate
    about: FieldInfo

    @property
    def section(self) -> str:
        return self.key.rpartition(".")[0]

    @property
    def flags(self) -> list[str]:
        """The flag of its key first, then its aliases. A switch has a second form of each:
        `negated`.
        """
        marks = [mark for mark in self.about.metadata if isinstance(mark, Alias)]
        aliases = [flag for mark in marks if not isinstance(mark, Earlier) for flag in mark.aliases]
        return [f"--{self.key}".replace("_", "-"), *aliases]

    @property
    def earlier_flags(self) -> list[str]:
        """Flags of earlier versions, which stay valid."""
        marks = [mark for mark in self.about.metadata if isinstance(mark, Earlier)]
        return [flag for mark in marks for flag in mark.aliases]

    @property
    def is_switch(self) -> bool:
        return self.about.annotation is bool

    @property
    def is_list(self) -> bool:
        return get_origin(self.about.annotation) is tuple

    @property
    def alone(self) -> str:
        """The value that a flag without one sets; "" where the flag needs a value."""
        for mark in self.about.metadata:
            if isinstance(mark, BareFlag):
                return mark.value
        return ""

    def is_a(self, *kinds: type) -> bool:
        """Whether its value is of one of these types."""
        return isinstance(self.about.annotation, type) and issubclass(self.about.annotation, kinds)


@cache
def options(kind: type[BaseModel], prefix: str = "") -> Mapping[str, Option]:
    """Every option of this configuration by its key, those of its sections included."""
    found: dict[str, Option] = {}
    inner = sections(kind)
    for name in [*kind.model_fields, *plugged_sections(kind)]:
        if name in inner:
            found |= options(inner[name], f"{prefix}{name}.")
        else:
            found[prefix + name] = Option(prefix + name, kind.model_fields[name])
    return found


def sections(kind: type[BaseModel]) -> dict[str, type[BaseModel]]:
    """The sections of this configuration by name, those that other packages bring included."""
    found: dict[str, type[BaseModel]] = {}
    for name, about in kind.model_fields.items():
        if isinstance(about.annotation, type) and issubclass(about.annotation, BaseModel):
            found[name] = about.annotation
    return {**found, **plugged_sections(kind)}


def by_present_names(kind: type[BaseModel], values: Mapping[str, Any]) -> dict[str, Any]:
    """Values by key, where a section may be called as in an earlier version: {"card.code": "x"} is
    {"manifest.code": "x"}. A value by the present name wins.
    """
    renamed = dict[str, str](getattr(kind, "renamed", {}))
    for name, section in sections(kind).items():
        renamed |= dict.fromkeys(getattr(section, "earlier", ()), name)
    found: dict[str, Any] = {}
    for key, value in values.items():
        first, dot, rest = key.partition(".")
        if first in renamed and first not in kind.model_fields:
            found.setdefault(f"{renamed[first]}{dot}{rest}", value)
        else:
            found[key] = value
    return found


def describe(kind: type[BaseModel]) -> dict[str, str]:
    """The explanation of every key, "a.b" -> its docstring."""
    return {key: option.about.description or "" for key, option in options(kind).items()}


def negated(flag: str) -> str:
    """The flag that turns a switch off: --network.no-mdns for --network.mdns."""
    section, dot, name = flag.removeprefix("--").rpartition(".")
    return f"--{section}{dot}no-{name}"


def flatten(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """{"a": {"b": 1}} -> {"a.b": 1}. An empty section stays, as it may be a name that does not
    exist.
    """
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            flat.update(flatten(value, f"{prefix}{key}."))
        else:
            flat[f"{prefix}{key}"] = value
    return flat
