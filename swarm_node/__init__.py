"""A node of a decentralised swarm of small language models that learn by sharing their rollouts.

For scripts and notebooks: `join` a swarm, `run` a node, `simulate` many. docs/how-to/python.md.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from swarm_node.api import Swarm, join
    from swarm_node.common.errors import UserError
    from swarm_node.integrations.handle import RunningNode, run
    from swarm_node.settings import NodeConfig, SimulationConfig
    from swarm_node.simulation.api import load_report, simulate

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

# The modules of these names. Each process of a node imports this package: with all of them a
# scoring process would take 50 MB in place of 16, and `swarm-node --version` half a second more.
# So they are imported when they are first used
_MODULES = {
    "NodeConfig": "settings",
    "RunningNode": "integrations.handle",
    "SimulationConfig": "settings",
    "Swarm": "api",
    "UserError": "common.errors",
    "join": "api",
    "load_report": "simulation.api",
    "run": "integrations.handle",
    "simulate": "simulation.api",
}

if not TYPE_CHECKING:  # a type checker and an editor follow the imports above

    def __getattr__(name: str) -> object:
        """Imports a name of `__all__` when it is first used."""
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return __all__
