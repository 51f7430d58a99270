"""Gone to swarm_node.environments.temporal_clue."""
