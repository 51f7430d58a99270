"""A node of a decentralised swarm of small language models that learn by sharing their rollouts.

For scripts and notebooks: `join` a swarm, `run` a node; extensions add names such as `simulate`. docs/how-to/python.md.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from swarm_node.api import Swarm, join, run
    from swarm_node.common.errors import UserError
    from swarm_node.settings import NodeConfig

__all__ = ["NodeConfig", "Swarm", "UserError", "join", "run"]

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


def _whole(name: str, found: Any) -> Any:
    """What is called so, and a configuration with the sections of extensions."""
    if not name.endswith("Config"):
        return found
    from swarm_node.settings import with_sections

    return with_sections(found)


def _is_module(name: str) -> bool:
    """Whether Python asks in the course of an import, and goes on without an answer."""
    from importlib.util import find_spec

    return find_spec(f"{__name__}.{name}") is not None
