"""What a node has learned, when it stops and by `swarm-node ask`; and what to try where it learns nothing."""
