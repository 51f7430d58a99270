"""How the starter models in `swarm_node/starters` were made: `python -m lab.starters.make`."""
