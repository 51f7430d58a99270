"""A worker process of the simulation: `python -m swarm_node.simulation.worker`. Not for people."""

from swarm_node.simulation.inmemory import InMemoryRun
from swarm_node.simulation.pipe import serve
from swarm_node.simulation.population import LivePopulation

if __name__ == "__main__":
    serve(lambda config, cell: InMemoryRun(config, cell, LivePopulation(config)))
