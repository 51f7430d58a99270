"""Gone to swarm_node.integrations.trl."""
