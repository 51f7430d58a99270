"""Takes a trained model out of the home: `swarm-node model export` and `model push`."""
