"""`swarm-node page`: a node in a browser, running or not. Loads no torch."""

import asyncio
import hashlib
import os
import re
import secrets
import sys
from contextlib import suppress
from pathlib import Path
from socket import socket
from time import monotonic

from swarm_node.commands.command import Command
from swarm_node.commands.status import ask
from swarm_node.common.children import OF_THE_USER
from swarm_node.common.errors import UserError
from swarm_node.extensions.page.settings import PageConfig
from swarm_node.settings.command_line import from_command_line

PAGE = """\
usage: swarm-node page [HOME] [--listen HOST:PORT] [--flags]

A node in a browser, running or not. Prints the address, which holds a token.
Stops on Ctrl-C; the node goes on.

  --listen HOST:PORT   0.0.0.0:8080 for other machines (127.0.0.1:8420)
  --names NAME ...     host names by which a proxy asks for it
  --public             the public view at / without the token
  --public-tasks LIST  tasks of your own that it may name
  --open-metrics       /metrics without the token: figures, and only names
                       that the public view may show"""

NICE = 10  # beside a node: viewers wait, training does not
# Set at every start: by Python, macOS, cli.py
BY_ITSELF = {"LC_CTYPE", "__CF_USER_TEXT_ENCODING", "OMP_WAIT_POLICY"}
KEPT = {*OF_THE_USER, *BY_ITSELF, "PYTHONPATH", "PYTHONUTF8", "CUDA_VISIBLE_DEVICES", "COLUMNS"}
# Options, and none that holds a secret
OPTION = re.compile(r"SWARM_NODE_(?!.*(KEY|PASSWORD|SECRET|URL)).*")
OF_A_NODE = ("identity.key", "events.jsonl")  # a home holds at least one of them
TOKEN_FILE = "page.token"  # noqa: S105  in the home of a node, so that the address stays the same


def command(argv: list[str]) -> None:
    """Serves until it is told to stop."""
    config = from_command_line(PageConfig, argv, "swarm-node page", first="folder")
    folder = config.folder.expanduser()
    if (folder / "report.json").exists():
        raise UserError(f"{folder} holds a simulation: swarm-node view plot draws it")
    if not config.with_parent and not any((folder / name).exists() for name in OF_A_NODE):
        raise UserError(
            f"no node has run in {folder}: name the home of one, or start it with swarm-node run"
        )
    _without_secrets(argv)
    if config.with_parent:
        os.nice(NICE)
    asyncio.run(_show(config, folder))


def _without_secrets(argv: list[str]) -> None:
    """Goes on as the same process without the variables of the user's shell: a page needs no tokens
    and keys of other programs. What was once in a process's environment stays readable there, so
    the process executes itself again.
    """
    kept = {
        name: value for name, value in os.environ.items() if name in KEPT or OPTION.fullmatch(name)
    }
    if kept.keys() != os.environ.keys():
        os.execve(sys.executable, [sys.executable, "-P", "-m", "swarm_node", "page", *argv], kept)  # noqa: S606


async def _show(config: PageConfig, home: Path) -> None:
    from swarm_node.extensions.page.app import routes, static_files
    from swarm_node.extensions.page.asking import ACT, with_pause
    from swarm_node.extensions.page.guard import Guard
    from swarm_node.extensions.page.page import Page
    from swarm_node.extensions.page.public import FREE, PublicView
    from swarm_node.extensions.page.server import listener_at, serve
    from swarm_node.extensions.page.sight import PrivateSwarm, Sight

    listener, token = listener_at(config.listen), token_of(home)
    page = Page(home, with_pause(ask), monotonic)
    sight = Sight(shipped_tasks(), config.public_tasks, PrivateSwarm(home))
    public = PublicView(page, monotonic, sight) if config.public else None
    free = [*(FREE if public else ()), *(["/metrics"] if config.open_metrics else [])]
    door = ("/node" if public else "/", static_files()["enter.html"])
    writes = [] if public else [ACT]  # a page with a public view takes no commands
    # Each folder has its own
    cookie = f"swarm-node-{hashlib.sha256(os.fsencode(home.resolve())).hexdigest()[:8]}"
    app = Guard(routes(page, public, home, sight), token, cookie, config.names, free, writes, door)
    addresses = shown(listener, token, public is not None)
    await serve(
        page, app, listener, lambda: print("\n".join(addresses), flush=True), config.with_parent
    )


def shipped_tasks() -> frozenset[str]:
    """Names of the tasks whose questions come with this program. They are in a file, as a page
    loads no environment.
    """
    return frozenset((Path(__file__).parent / "static" / "tasks.txt").read_text().split())


def shown(listener: socket, token: str, public: bool) -> list[str]:
    """The addresses to open. The token stands behind the #, which no browser sends: no log and no
    proxy gets it. A page on all interfaces is shown at the loopback address, as the name that
    others have for this machine is not known.
    """
    host, port = listener.getsockname()[:2]
    name = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)  # noqa: S104
    base = f"http://{name}:{port}/"
    if public:
        return [f"public page: {base}", f"page: {base}node#token={token}"]
    return [f"page: {base}#token={token}"]


def token_of(home: Path) -> str:
    """The token of the last start, or a new one, kept in the home if possible. Only the user can
    read that file.
    """
    fresh = secrets.token_urlsafe(24)
    with suppress(OSError, ValueError):
        flags = os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(home / TOKEN_FILE, flags, 0o600)
        with os.fdopen(descriptor, "r+", encoding="ascii") as file:
            kept = file.read(200).strip()
            if len(kept) >= 16 and kept.replace("-", "").replace("_", "").isalnum():
                return kept
            file.seek(0)
            file.truncate()
            file.write(fresh + "\n")
    return fresh


COMMAND = Command(PageConfig, PAGE, command)
