"""The engines, by the names that `--engine` has for them."""

from collections.abc import Callable, Mapping

from swarm_node.settings import SimulationConfig
from swarm_node.simulation.engines.engine import Engine
from swarm_node.simulation.engines.ray_cluster import RayEngine
from swarm_node.simulation.engines.real_nodes import ProcessEngine

ENGINES: Mapping[str, Callable[[], Engine]] = {
    "memory": Engine,
    "process": ProcessEngine,
    "ray": RayEngine,
}


def engine_of(config: SimulationConfig) -> Engine:
    """The engine that the configuration names."""
    return ENGINES[config.engine]()
