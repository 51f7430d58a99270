"""`python -m swarm_node` is `swarm-node`."""

from swarm_node.commands.cli import main

main()
