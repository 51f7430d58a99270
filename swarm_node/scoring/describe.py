"""What an environment from outside says of itself, as one JSON object: `python -m ... TARGET`. Not for people.

It runs in a process of its own, so that the node learns the tasks without importing the class.
"""

import json
import os
import sys

from swarm_node.scoring.server import load


def main() -> None:
    """Prints the facts as JSON; what an import prints goes to standard error."""
    out = os.dup(1)
    os.dup2(2, 1)  # whatever the import prints
    source = load(sys.argv[1])
    facts = {
        "name": source.name,
        "version": source.version,
        "tasks": {dataset: list(config_ids) for dataset, config_ids in source.tasks.items()},
        "turns": getattr(source, "turns", 1),
        "probe": getattr(source, "probe", ()),
    }
    os.write(out, json.dumps(facts).encode())


if __name__ == "__main__":
    main()
