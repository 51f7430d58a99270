"""Groups whose author has left: who still holds them, and does a newcomer find them there without a DHT?

    python -m lab.studies.orphans --json        # as root, for a network namespace; docs/results/founding.md

Network processes as in `lab.studies.hundred`. A fourth of the authors are killed at once, between two of their rounds.
Their groups of that round are asked for by a newcomer that wants everything. What no living node holds is lost; what
one holds, a DHT whose records are all right and all honest would find: that is the most that it could add.
"""

import time
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from lab.benchmarks import command
from lab.studies.happenings import Bootstrap, address, in_namespace
from lab.studies.hundred import Node, all_go, lived
from swarm_node.settings import NetworkConfig

EVERYTHING = 512  # groups a round


def main() -> None:
    parser = command.parser("lab.studies.orphans", __doc__)
    parser.add_argument("--nodes", type=int, default=20)
    parser.add_argument("--round-seconds", type=float, default=20.0)
    parser.add_argument("--minutes", type=float, default=3.2, help="until the authors leave")
    parser.add_argument("--after", type=float, default=1.0, help="minutes in which the newcomer looks")
    options = parser.parse_args()
    in_namespace("lab.studies.orphans")
    with TemporaryDirectory(prefix="orphans-") as folder, ExitStack() as stack:
        work, began = Path(folder), time.monotonic()
        founded = Bootstrap(stack, work, [(address(400), ())])
        config = NetworkConfig(mdns=False, peers=tuple(founded.addresses))
        nodes = [Node(number, work, founded.swarm, config, founded.chain) for number in range(options.nodes + 1)]
        newcomer = nodes.pop()
        stack.callback(all_go, [*nodes, newcomer])
        for node in nodes:
            node.come(0.0)
            node.due = time.monotonic() - began + options.round_seconds * node.number / len(nodes)
        lived(nodes, (), (), options, began)
        gone, living = nodes[::4], [node for node in nodes if node.number % 4]
        for node in gone:
            node.go(killed=True)
        newcomer.want = EVERYTHING
        newcomer.come(0.0)
        options.minutes += options.after
        lived([*living, newcomer], (), (), options, began)
    left = set[str]().union(*(node.last for node in gone))
    held, found = left.intersection(set[str]().union(*(node.got for node in living))), left & newcomer.got
    counts = {"left": len(left), "held": len(held), "found": len(found), "held and found": len(held & found)}
    command.show(["groups of those who left", "count"], [[name, f"{count}"] for name, count in counts.items()])
    command.finish(options, counts)


if __name__ == "__main__":
    main()
