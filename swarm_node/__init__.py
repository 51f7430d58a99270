"""A node of a decentralised swarm of small language models that learn by sharing their rollouts."""
