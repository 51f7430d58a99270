"""The engines by the names that --engine takes."""

from collections.abc import Mapping

from swarm_node.extensions.ray.engine import RayEngine
from swarm_node.extensions.simulation.engines.docker import DockerEngine
from swarm_node.extensions.simulation.engines.engine import Engine
from swarm_node.extensions.simulation.engines.memory import MemoryEngine
from swarm_node.extensions.simulation.engines.process import ProcessEngine

ENGINES: Mapping[str, Engine] = {
    "memory": MemoryEngine(),
    "process": ProcessEngine(),
    "docker": DockerEngine(),
    "ray": RayEngine(),
}
