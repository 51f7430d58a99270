"""`swarm-node pause` and `resume`: a node that is a guest makes room, and goes on later."""

from pathlib import Path

from swarm_node.commands.command import Command
from swarm_node.commands.home import in_use
from swarm_node.common import private
from swarm_node.common.errors import UserError
from swarm_node.node.guest import PAUSE_FILE
from swarm_node.settings import AskConfig
from swarm_node.settings.command_line import from_command_line

PAUSE_PAGE = """\
usage: swarm-node pause [--home FOLDER]

The node of this home rests after the round it is in: no training and no
traffic, also after a restart, until swarm-node resume. It keeps its memory.

  --home FOLDER   of the node (~/.swarm-node)"""

RESUME_PAGE = """\
usage: swarm-node resume [--home FOLDER]

The node of this home goes on after swarm-node pause.

  --home FOLDER   of the node (~/.swarm-node)"""


def pause(argv: list[str]) -> None:
    """Tells the node of a home to rest, whether it runs or starts later."""
    home = _home(argv, "swarm-node pause")
    try:
        private.open_to_write(home / PAUSE_FILE).close()
    except OSError as error:
        raise UserError(f"home {home}: {error.strerror}; name the folder of a node with --home") from error
    print("it rests after this round" if in_use(home) else "no node runs there now; the next one will rest")


def resume(argv: list[str]) -> None:
    """Tells the node of a home to go on."""
    home = _home(argv, "swarm-node resume")
    try:
        (home / PAUSE_FILE).unlink()
    except FileNotFoundError as error:
        raise UserError(f"home {home} is not paused") from error
    except OSError as error:
        raise UserError(f"home {home}: {error.strerror}") from error
    print("it goes on" if in_use(home) else "no node runs there now; the next one will work")


def _home(argv: list[str], program: str) -> Path:
    home: Path = from_command_line(AskConfig, argv, program, flags_only=True).home.expanduser()
    if not home.is_dir():
        raise UserError(f"home {home} does not exist: name the folder of a node with --home")
    return home


PAUSE = Command(AskConfig, PAUSE_PAGE, pause)
RESUME = Command(AskConfig, RESUME_PAGE, resume)
