"""`swarm-node` that keeps every checkpoint, each with AdamW's state: for tests that go back to one of them."""

from swarm_node.commands.cli import main
from swarm_node.node import checkpoints

if __name__ == "__main__":
    checkpoints.KEPT = checkpoints.STATES = 99
    main()
