"""What was trained, out of the home: `swarm-node model export` and `model push`."""
