"""`swarm-node run`: the first second of a node, in which everything is started that needs no torch.

Importing torch and transformers takes seconds. The judge and the network process, each with imports of its own, use
them to get ready: others have been found, and the first question is answered at once, when the policy is loaded.
"""

from contextlib import ExitStack
from time import monotonic

from rich.console import Console

from swarm_node.assembly.environments import build_environment
from swarm_node.assembly.network import build_network
from swarm_node.commands.home import load_identity, owned
from swarm_node.settings import NodeConfig
from swarm_node.telemetry.recent import RecentRounds


def run(config: NodeConfig, console: Console) -> None:
    """Train until `max_rounds`, or until interrupted."""
    home = config.home.expanduser()
    with owned(home), ExitStack() as stack:
        identity = load_identity(home)
        environment = build_environment(config, prepare=True)
        stack.callback(environment.close)
        progress = RecentRounds(monotonic)
        network = build_network(config, identity, environment, progress.facts)
        network.start()
        stack.callback(network.close)
        from swarm_node.commands.run.session import work  # now, not above: it loads torch

        work(config, identity.peer_id, environment, network, progress, console)
