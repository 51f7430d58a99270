"""A worker process of the simulation, whatever its engine: `python -m swarm_node.extensions.simulation.worker`. Not for
people."""

from swarm_node.extensions.simulation.engines.engine import engine_of
from swarm_node.extensions.simulation.worker_messages import serve

if __name__ == "__main__":
    serve(lambda config, cell: engine_of(config).begin(config, cell))
