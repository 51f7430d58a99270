"""`swarm-node init` and `id`: this node's name in the swarm."""

from swarm_node.commands.command import Command
from swarm_node.commands.home import KEY_FILE, load_identity
from swarm_node.common.errors import UserError
from swarm_node.settings import NodeConfig
from swarm_node.settings.command_line import from_command_line

INIT_PAGE = """\
usage: swarm-node init [CONFIG.toml] [--home FOLDER]

Make this node's identity, its name in the swarm; run does so too. Prints it.

  --home FOLDER   where the identity goes (~/.swarm-node)"""

ID_PAGE = """\
usage: swarm-node id [CONFIG.toml] [--home FOLDER]

Show this node's identity, its name in the swarm.

  --home FOLDER   where the identity is (~/.swarm-node)"""


def init(argv: list[str]) -> None:
    """Makes the identity unless it is there, and prints the peer id."""
    home = from_command_line(NodeConfig, argv, "swarm-node init").home.expanduser()

    existed = (home / KEY_FILE).exists()
    print(load_identity(home).peer_id)
    print(
        f"{'already there' if existed else 'made'}: {home / KEY_FILE}; keep a copy, it is this node's name in the swarm"
    )


def show_id(argv: list[str]) -> None:
    """Prints the peer id. UserError where there is no identity yet."""
    home = from_command_line(NodeConfig, argv, "swarm-node id").home.expanduser()

    if not (home / KEY_FILE).exists():
        raise UserError(f"no identity in {home}; make one with: swarm-node init --home {home}")
    print(load_identity(home).peer_id)


INIT = Command(NodeConfig, INIT_PAGE, init)
ID = Command(NodeConfig, ID_PAGE, show_id)
