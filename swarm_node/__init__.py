"""A node of a decentralised swarm of small language models that learn by sharing their rollouts.

For scripts and notebooks: `join` a swarm, `run` a node, `simulate` many. docs/how-to/python.md.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from swarm_node.api import Swarm, join
    from swarm_node.common.errors import UserError
    from swarm_node.integrations.handle import RunningNode, run
    from swarm_node.settings import NodeConfig
    from swarm_node.simulation.api import load_report, simulate
    from swarm_node.simulation.settings import SimulationConfig

__all__ = [
    "NodeConfig",
    "RunningNode",
    "SimulationConfig",
    "Swarm",
    "UserError",
    "join",
    "load_report",
    "run",
    "simulate",
]

_MODULES = {
    "NodeConfig": "settings",
    "RunningNode": "integrations.handle",
    "SimulationConfig": "simulation.settings",
    "Swarm": "api",
    "UserError": "common.errors",
    "join": "api",
    "load_report": "simulation.api",
    "run": "integrations.handle",
    "simulate": "simulation.api",
}


def __getattr__(name: str) -> Any:
    """Imports a name when it is first used: `import swarm_node` alone costs nothing."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _whole(name, getattr(import_module(f"{__name__}.{_MODULES[name]}"), name))


def __dir__() -> list[str]:
    return __all__


def _whole(name: str, found: Any) -> Any:
    """The object as it is; a configuration class with the sections of extensions, whose mistakes
    are a line.
    """
    if not name.endswith("Config"):
        return found
    from swarm_node.settings.command_line import told_in_a_line

    return told_in_a_line(found)
