"""The configuration that a script or a notebook means by an object, a file or a name."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel

from swarm_node.common import homeless
from swarm_node.common.errors import UserError
from swarm_node.settings.command_line import from_python
from swarm_node.settings.secret import revealed

C = TypeVar("C", bound=BaseModel)


def combined(kind: type[C], config: BaseModel | Path | str | None, options: Mapping[str, Any]) -> C:
    """The configuration of this kind that a script names by an object, a file or the name of a
    shipped one, with its options. Raises UserError for a mistake in them.
    """
    homeless.settle()
    if isinstance(config, kind):
        return from_python(kind, None, revealed(config, exclude_unset=True), options)
    if config is not None and not isinstance(config, Path | str):
        raise UserError(
            f"give a {kind.__name__}, a file or the name of a shipped configuration, not "
            f"{type(config).__name__}"
        )
    return from_python(kind, config, options)
