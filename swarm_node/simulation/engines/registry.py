"""The engines by the names that --engine takes."""

from collections.abc import Mapping

from swarm_node.simulation.engines.docker import DockerEngine
from swarm_node.simulation.engines.engine import Engine
from swarm_node.simulation.engines.memory import MemoryEngine
from swarm_node.simulation.engines.process import ProcessEngine
from swarm_node.simulation.engines.ray import RayEngine

ENGINES: Mapping[str, Engine] = {
    "memory": MemoryEngine(),
    "process": ProcessEngine(),
    "docker": DockerEngine(),
    "ray": RayEngine(),
}
