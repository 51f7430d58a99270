"""A worker process of the simulation, whatever its engine: `python -m swarm_node.extensions.simulation.worker`. Not for
people."""

from swarm_node.extensions.simulation.engines.registry import ENGINES
from swarm_node.extensions.simulation.worker_messages import serve

if __name__ == "__main__":
    serve(lambda config, cell: ENGINES[config.engine].begin(config, cell))
