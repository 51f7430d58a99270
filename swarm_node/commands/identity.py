"""`swarm-node home id`: this node's name in the swarm."""

import sys

from swarm_node.commands.command import Command
from swarm_node.commands.home import KEY_FILE, load_identity
from swarm_node.settings import NodeConfig
from swarm_node.settings.command_line import from_command_line

PAGE = """\
usage: swarm-node home id [CONFIG.toml] [--home FOLDER]

Show this node's identity, its name in the swarm. Where there is none yet, make
it; run does so too.

  --home FOLDER   where the identity is (~/.swarm-node)"""


def command(argv: list[str]) -> None:
    """Prints the peer id; says so if it is a new one."""
    home = from_command_line(NodeConfig, argv, "swarm-node home id").home.expanduser()
    existed = (home / KEY_FILE).exists()
    identity = load_identity(home)
    if not existed:
        print(f"made {home / KEY_FILE}: keep a copy, it is this node's name in the swarm", file=sys.stderr)
    print(identity.peer_id)


ID = Command(NodeConfig, PAGE, command)
