"""`swarm-node run`: the first second of a node, in which everything is started that needs no torch.

Importing torch and transformers takes seconds. The judge and the network process, each with imports of its own, use
them to get ready: others have been found, and the first question is answered at once, when the policy is loaded.
"""

import os
from contextlib import ExitStack
from time import monotonic

from rich.console import Console

from swarm_node.assembly.environments import build_environment
from swarm_node.assembly.network import build_network
from swarm_node.commands.arguments import with_peers
from swarm_node.commands.home import load_identity, owned
from swarm_node.network.transport.backends import check_addresses, check_installed
from swarm_node.settings import NodeConfig
from swarm_node.settings.sources import from_command_line
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


def command(argv: list[str]) -> None:
    """Runs until it is told to stop. What can be wrong with addresses and extras is said before anything loads."""
    config = from_command_line(NodeConfig, with_peers(argv), "swarm-node run")
    if config.asynchronous.enabled:  # before torch is loaded: its idle threads must not spin on the generator's cores
        os.environ.setdefault("OMP_WAIT_POLICY", "passive")

    check_addresses(config.network)  # before anything that takes seconds to load
    if config.network.enabled:
        check_installed(config.network.backend)

    run(config, Console())
