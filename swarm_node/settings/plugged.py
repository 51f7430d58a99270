"""Sections of options that other packages bring: a plug-in's own options.

A package registers the class of its section in the group of entry points `swarm_node.settings`,
under the name of its table in TOML. The attribute `serves` of this class lists the configurations
that the section belongs to. A user sets the options of the section as all others: in a file, by a
variable or by a flag. The plug-in reads their values with `section_of`.

Sections that come with swarm-node are plain fields of the configurations, not entry points.
"""

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel

from swarm_node.common import plugins
from swarm_node.settings.sections import Section

KIND = "settings"
S = TypeVar("S", bound=Section)


def plugged_sections(kind: type[BaseModel]) -> Mapping[str, type[Section]]:
    """The sections that other packages bring for this configuration, by name. None takes the name
    of an option that is there without it.
    """
    if not getattr(kind, "takes_plugged_sections", False):
        return {}  # without a look at what is installed, which takes a tenth of a second
    found: dict[str, type[Section]] = {}
    for name in plugins.registered(KIND):
        if name in kind.model_fields:
            continue
        section = plugins.load(KIND, name)
        if issubclass(kind, section.serves):
            found[name] = section
    return found


def empty_sections(kind: type[BaseModel]) -> dict[str, dict[str, Any]]:
    """These sections, as values that a configuration of this kind is made of: with defaults."""
    return {name: {} for name in plugged_sections(kind)}


def section_of(config: BaseModel, kind: type[S]) -> S:
    """The section of this class in a configuration; its defaults where the configuration has
    none.
    """
    for _, value in config:
        if isinstance(value, kind):
            return value
    return kind()


def part_of(config: BaseModel, kind: type[BaseModel]) -> dict[str, Any]:
    """What a configuration has of all that one of this kind has: sections and options, by name."""
    wanted = {*kind.model_fields, *plugged_sections(kind)}
    return {name: value for name, value in config if name in wanted}
