"""A node that a script or a notebook starts, looks at and stops: `swarm_node.run`."""
