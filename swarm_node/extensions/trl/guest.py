"""Gone to swarm_node.integrations.trl.guest: this name goes on working for TRL scripts of 0.1."""

from swarm_node.integrations.trl.guest import Swarm

__all__ = ["Swarm"]
