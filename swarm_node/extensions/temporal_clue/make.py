"""Gone to swarm_node.environments.temporal_clue.make: `python -m` of this name goes on working."""

from swarm_node.environments.temporal_clue.make import main

if __name__ == "__main__":
    main()
