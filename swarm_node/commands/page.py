"""`swarm-node page`: a node in a browser, running or not. Loads no torch."""

import asyncio
import os
import re
import sys

from swarm_node.commands.status import ask
from swarm_node.common.children import OF_THE_USER
from swarm_node.common.command import Command
from swarm_node.common.errors import UserError
from swarm_node.common.files import check_links
from swarm_node.page.start import show
from swarm_node.settings.command_line import from_command_line
from swarm_node.settings.page import PageConfig

PAGE = """\
usage: swarm-node page [HOME] [--listen HOST:PORT] [--flags]

Opens the dashboard of a node in a browser, whether the node is running or not.
Prints the address, which contains a token. Ctrl-C stops the dashboard; the node
continues.

  --listen HOST:PORT   0.0.0.0:8080 for other machines (127.0.0.1:8420)
  --names NAME ...     host names under which a proxy reaches the dashboard
  --public             show the public view at / without the token
  --public-tasks LIST  tasks of your own that the public view can name
  --open-metrics       answer /metrics without the token, with figures and
                       only those names that the public view can show"""

NICE = 10  # beside a node: viewers wait, training does not
KEPT = {
    *OF_THE_USER,
    "PYTHONPATH",
    "PYTHONUTF8",
    "XDG_STATE_HOME",
    "CUDA_VISIBLE_DEVICES",
    "COLUMNS",
}
# Tells the second start that it is one: each start sets variables of its own, of Python, macOS and
# torch, which must not be taken for the user's
STARTED_AGAIN = "SWARM_PAGE_STARTED_AGAIN"
# Options, and none that holds a secret
OPTION = re.compile(r"SWARM_NODE_(?!.*(KEY|PASSWORD|SECRET|URL)).*")
OF_A_NODE = ("identity.key", "events.jsonl")  # a home holds at least one of them


def command(argv: list[str]) -> None:
    """Serves until it is told to stop."""
    config = from_command_line(PageConfig, argv, "swarm-node page", first="folder")
    folder = config.folder.expanduser()
    check_links(folder)
    if (folder / "report.json").exists():
        raise UserError(f"{folder} holds a simulation: swarm-node view plot draws it")
    if not config.with_parent and not any((folder / name).exists() for name in OF_A_NODE):
        raise UserError(
            f"no node has run in {folder}: name the home of one, or start it with swarm-node run"
        )
    _without_secrets(argv)
    if config.with_parent:
        os.nice(NICE)
    asyncio.run(show(config, folder, ask))


def _without_secrets(argv: list[str]) -> None:
    """Goes on as the same process without the variables of the user's shell: a page needs no tokens
    and keys of other programs. What was once in a process's environment stays readable there, so
    the process executes itself again.
    """
    names = [name for name in os.environ if name in KEPT or OPTION.fullmatch(name)]
    if STARTED_AGAIN not in os.environ and len(names) < len(os.environ):
        variables = {name: os.environ[name] for name in names} | {STARTED_AGAIN: "1"}
        os.execve(  # noqa: S606
            sys.executable,
            [sys.executable, "-P", "-m", "swarm_node", "page", *argv],
            variables,
        )


COMMAND = Command(PageConfig, PAGE, command)
