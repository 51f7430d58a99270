"""What was trained, out of the home: `swarm-node export` and `push`."""
