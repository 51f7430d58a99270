"""A node of a decentralised swarm of small language models that learn by sharing their rollouts.

For scripts and notebooks: `run` a node, `join` a swarm with a model of your own; extensions add names such as
`simulate`, and `dir(swarm_node)` has them all. docs/how-to/python.md.
"""

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from swarm_node.api import RunningNode, Swarm, join, run
    from swarm_node.common.errors import UserError
    from swarm_node.settings import NodeConfig

__all__ = ["NodeConfig", "RunningNode", "Swarm", "UserError", "join", "run"]

_PLACES = {"NodeConfig": "settings", "UserError": "common.errors"}


def __getattr__(name: str) -> Any:
    """Imported when it is first used: `import swarm_node` alone costs nothing. Configurations have the sections of
    extensions. What the core does not have is asked of extensions, which register it as an entry point of the group
    `swarm_node.api`."""
    if name in __all__:
        return _whole(name, getattr(import_module(f"{__name__}.{_PLACES.get(name, 'api')}"), name))
    if not name.startswith("_") and not _is_module(name):
        from swarm_node.common import plugins

        if name in plugins.registered("api"):
            return _whole(name, plugins.load("api", name))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    from swarm_node.common import plugins

    return sorted([*__all__, *plugins.registered("api")])


def _whole(name: str, found: Any) -> Any:
    """What is called so, and a configuration with the sections of extensions."""
    return _configuration(found) if name.endswith("Config") else found


@cache
def _configuration(found: Any) -> Any:
    """Says in one line what is wrong in its values."""
    from swarm_node.settings import with_sections
    from swarm_node.settings.command_line import from_python

    kind = with_sections(found)

    class Told(type(kind)):  # type: ignore[misc]
        def __call__(cls, **values: Any) -> Any:
            return from_python(kind, None, values)

        def __instancecheck__(cls, instance: Any) -> bool:
            return isinstance(instance, kind)

    return Told(kind.__name__, (kind,), {"__module__": kind.__module__, "__doc__": kind.__doc__})


def _is_module(name: str) -> bool:
    """Whether Python asks in the course of an import, and goes on without an answer."""
    from importlib.util import find_spec

    return find_spec(f"{__name__}.{name}") is not None
