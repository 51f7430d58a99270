"""A node of a decentralised swarm of small language models that learn by sharing their rollouts.

For scripts and notebooks: `join` a swarm; extensions add names such as `run` and `simulate`.
docs/how-to/python.md.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from swarm_node.api import Swarm, join
    from swarm_node.common.errors import UserError
    from swarm_node.settings import NodeConfig

__all__ = ["NodeConfig", "Swarm", "UserError", "join"]

_PLACES = {"NodeConfig": "settings", "UserError": "common.errors"}


def __getattr__(name: str) -> Any:
    """Imports a name when it is first used: `import swarm_node` alone costs nothing. Configurations
    get the sections of extensions. A name that the core lacks comes from an extension, which
    registers it as an entry point of the group `swarm_node.api`.
    """
    if name in __all__:
        return _whole(name, getattr(import_module(f"{__name__}.{_PLACES.get(name, 'api')}"), name))
    # Python asks for a submodule on import
    if not name.startswith("_") and find_spec(f"{__name__}.{name}") is None:
        from swarm_node.common import plugins

        if name in plugins.registered("api"):
            return _whole(name, plugins.load("api", name))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    from swarm_node.common import plugins

    return [*__all__, *plugins.registered("api")]


def _whole(name: str, found: Any) -> Any:
    """The object as it is; a configuration class with the sections of extensions, whose mistakes
    are a line.
    """
    if not name.endswith("Config"):
        return found
    from swarm_node.settings.command_line import told_in_a_line

    return told_in_a_line(found)
