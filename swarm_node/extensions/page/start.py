"""`swarm-node page`: a node or a simulation in a browser, running or not. Loads no torch."""

import asyncio
import hashlib
import os
import re
import secrets
import sys
from importlib import resources
from pathlib import Path
from socket import socket
from time import monotonic

from swarm_node.commands.command import Command
from swarm_node.commands.status import ask
from swarm_node.common import private
from swarm_node.common.children import OF_THE_USER
from swarm_node.common.errors import UserError
from swarm_node.extensions.page.node import NodeWatch
from swarm_node.extensions.page.settings import PageConfig
from swarm_node.extensions.page.simulation import SimulationWatch
from swarm_node.extensions.page.watched import Watched
from swarm_node.settings.command_line import from_command_line
from swarm_node.telemetry import checked
from swarm_node.telemetry.jsonlines import record_of

PAGE = """\
usage: swarm-node page [HOME|REPORT] [--listen HOST:PORT] [--flags]

A run in a browser: a node by its home, a simulation by its report folder,
running or not. Prints the address, which holds a token. Stops on Ctrl-C; the
run goes on.

  --listen HOST:PORT   0.0.0.0:8080 for other machines (127.0.0.1:8420)
  --names NAME ...     host names by which a proxy asks for it
  --no-token           everybody who reaches the port sees all
  --public             the public view at / without the token
  --public-tasks LIST  tasks of your own that it may name
  --open-metrics       /metrics without the token, for Prometheus"""

NICE = 10  # beside a node: whoever looks waits, training does not
KEPT = {*OF_THE_USER, "PATH", "PYTHONPATH", "PYTHONUTF8", "CUDA_VISIBLE_DEVICES", "COLUMNS"}
OPTION = re.compile(r"SWARM_NODE_(?!.*(KEY|PASSWORD|SECRET|URL)).*")  # options, and none that holds a secret
MOST_BYTES = 4 * 1024 * 1024  # of a manifest
TOKEN_FILE = "page.token"  # noqa: S105  in the home of a node, so that the address stays the same


def command(argv: list[str]) -> None:
    """Serves until it is told to stop."""
    config = from_command_line(PageConfig, argv, "swarm-node page", first="folder")
    folder = config.folder.expanduser()
    if not folder.is_dir():
        raise UserError(f"{folder} is no folder: name the home of a node, or the report folder of a simulation")
    _without_secrets(argv)
    watched = watched_in(folder)
    token = token_of(folder, keep=watched.kind == "node") if config.token or config.public else ""
    if config.with_parent:
        os.nice(NICE)
    asyncio.run(_show(config, folder, watched, token))


def _without_secrets(argv: list[str]) -> None:
    """Goes on as the same process without the variables of the user's shell: tokens and keys of other programs are
    nothing to a page. What was in the environment once stays readable in a process, so it is executed again."""
    kept = {name: value for name, value in os.environ.items() if name in KEPT or OPTION.fullmatch(name)}
    if kept.keys() != os.environ.keys():
        os.execve(sys.executable, [sys.executable, "-P", "-m", "swarm_node", "page", *argv], kept)  # noqa: S606


def watched_in(folder: Path) -> Watched:
    """A simulation where its manifest says so, else a node. Nothing in a manifest is obeyed: the folder may be a
    stranger's."""
    try:
        content = record_of(private.read_plain(folder / "manifest.json", MOST_BYTES)) or {}
    except OSError:
        content = {}
    if content.get("kind") != "simulation":
        return NodeWatch(folder)
    try:
        questions = checked.whole(content["config"]["round"]["questions"])
    except (KeyError, TypeError, ValueError):
        questions = 1
    return SimulationWatch(folder, questions)


async def _show(config: PageConfig, folder: Path, watched: Watched, token: str) -> None:
    from swarm_node.extensions.page.app import routes, static_files
    from swarm_node.extensions.page.guard import Guard
    from swarm_node.extensions.page.page import Page
    from swarm_node.extensions.page.public import FREE, PublicView
    from swarm_node.extensions.page.server import listener_at, serve

    listener = listener_at(config.listen)
    page = Page(folder, watched, ask, monotonic)
    public = PublicView(page, monotonic, shipped_tasks() | set(config.public_tasks)) if config.public else None
    free = [*(FREE if public else ()), *(["/metrics"] if config.open_metrics else [])]
    door = ("/node" if public else "/", static_files()["enter.html"])
    app = Guard(routes(page, public), token, cookie_of(folder), config.names, free, entrance=door)
    addresses = shown(listener, token, public is not None)
    await serve(page, app, listener, lambda: print("\n".join(addresses), flush=True), config.with_parent)


def cookie_of(folder: Path) -> str:
    """The name of the cookie: pages of other folders on this machine have others."""
    return f"swarm-node-{hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()[:8]}"


def shipped_tasks() -> frozenset[str]:
    """Names of the tasks whose questions come with this program. They are a file, since a page loads no environment."""
    return frozenset((resources.files("swarm_node.extensions.page") / "static" / "tasks.txt").read_text().split())


def shown(listener: socket, token: str, public: bool) -> list[str]:
    """What a person opens. The token stands behind the #, which no browser sends: no log and no proxy gets it. All
    interfaces are shown as this machine: which name others have for it is not known."""
    host, port = listener.getsockname()[:2]
    name = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)  # noqa: S104
    base = f"http://{name}:{port}/"
    if public:
        return [f"public page: {base}", f"page: {base}node#token={token}"]
    return [f"page: {base}#token={token}" if token else f"page: {base}"]


def token_of(home: Path, keep: bool) -> str:
    """That of last time, where it can be kept; readable by its user alone."""
    path = home / TOKEN_FILE
    fresh = secrets.token_urlsafe(24)
    if not keep:
        return fresh
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "r+", encoding="ascii") as file:
            kept = file.read(200).strip()
            if len(kept) >= 16 and kept.replace("-", "").replace("_", "").isalnum():
                return kept
            file.seek(0)
            file.truncate()
            file.write(fresh + "\n")
    except (OSError, ValueError):
        pass
    return fresh


COMMAND = Command(PageConfig, PAGE, command)
