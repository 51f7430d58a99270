"""A worker whose nodes are processes or containers: `python -m swarm_node.simulation.real_worker`. Not for people."""

from swarm_node.simulation.pipe import serve
from swarm_node.simulation.real import RealRun, launcher

if __name__ == "__main__":
    serve(lambda config, cell: RealRun(config, cell, launcher(config)))
