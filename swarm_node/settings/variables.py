"""Reads options from environment variables: SWARM_NODE_TRAINING__LEARNING_RATE sets
training.learning_rate.

A variable may be meant for any command. So one that is an option of another is left alone, and one
that no command has is a mistake if it names a section; else it may belong to another program, and a
warning says that it is left alone.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from swarm_node.common.errors import UserError, printable
from swarm_node.common.nearest import meant
from swarm_node.settings.flags import read_value
from swarm_node.settings.mistakes import warn
from swarm_node.settings.options import by_present_names, flatten, options, sections
from swarm_node.settings.sources import OptionSource, nested

PREFIX = "SWARM_NODE_"
# Kubernetes sets SWARM_NODE_PORT so for a service called swarm-node
OF_KUBERNETES = ("tcp://", "udp://", "sctp://")


def read_variables(
    kind: type[BaseModel], every: Sequence[type[BaseModel]], environment: Mapping[str, str]
) -> OptionSource:
    """The options of `kind` that environment variables set. `every`: the configurations of all
    commands. Raises UserError for a variable that begins with SWARM_NODE_SECTION__ and names no
    option of any command.
    """
    ours = sorted(name for name in environment if name.startswith(PREFIX))
    if not ours:
        return OptionSource("environment")
    kinds = [*every, kind]
    keys = {key for any_kind in kinds for key in options(any_kind)}
    # SWARM_NODE_MODEL may be a whole section, as JSON
    whole = {key.split(".")[0] for key in keys if "." in key}
    # `model` is a section of `run`, and a text of `contribute`
    own, own_sections = options(kind), sections(kind)
    values: dict[str, Any] = {}
    names: dict[str, str] = {}  # as its user wrote them: an option may have an earlier name
    strange = []
    for name in ours:
        key, text = _present_name(key_of(name), kinds), environment[name]
        is_of_kubernetes = "." not in key and text.startswith(OF_KUBERNETES)
        if "." in key and key not in keys:
            near = meant(key, sorted(keys))
            advice = f"did you mean {variable(near)}?" if near else "see swarm-node run --help-all"
            raise UserError(f"{name} is not an option; {advice}")
        if is_of_kubernetes or key not in keys | whole:
            strange.append(name)
        elif key in own or key in own_sections:
            values[key], names[key] = read_value(own.get(key), text), name
    if strange:
        _warn_of(strange)
    values = flatten(nested(values))
    as_written = {key: names.get(key, variable(key)) for key in values}
    return OptionSource("environment", values, as_written)


def key_of(name: str) -> str:
    """training.learning_rate of SWARM_NODE_TRAINING__LEARNING_RATE."""
    return name.removeprefix(PREFIX).lower().replace("__", ".")


def variable(key: str) -> str:
    """SWARM_NODE_TRAINING__LEARNING_RATE of training.learning_rate."""
    return PREFIX + key.upper().replace(".", "__")


def _present_name(key: str, kinds: Sequence[type[BaseModel]]) -> str:
    """The key, by its present name if one of these configurations has renamed it."""
    for kind in kinds:
        (key,) = by_present_names(kind, {key: None})
    return key


def _warn_of(strange: list[str]) -> None:
    trouble = (
        f"{', '.join(strange)}: no option has this name, so it is ignored; correct it, unless it "
        "is for another program"
    )
    warn(printable(trouble, 400))
