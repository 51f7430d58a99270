"""A node of a decentralised swarm of small language models that learn by sharing their rollouts.

For scripts and notebooks: `join` a swarm, `run` a node, `simulate` many, `load_report`. docs/how-to/python.md.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from swarm_node.api import Swarm, join, load_report, run, simulate
    from swarm_node.common.errors import UserError
    from swarm_node.settings import NodeConfig, SimulationConfig

__all__ = ["NodeConfig", "SimulationConfig", "Swarm", "UserError", "join", "load_report", "run", "simulate"]

_PLACES = {"NodeConfig": "settings", "SimulationConfig": "settings", "UserError": "common.errors"}


def __getattr__(name: str) -> Any:
    """Imported when it is first used: `import swarm_node` alone costs nothing."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES.get(name, 'api')}"), name)
