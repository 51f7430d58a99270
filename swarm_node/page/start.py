"""Starts a page: its listener, its token, and the addresses that are printed. The command is in
commands/page.py.
"""

import hashlib
import os
import secrets
from contextlib import suppress
from pathlib import Path
from socket import socket
from time import monotonic

from swarm_node.home.made_here import is_made_here, note_made
from swarm_node.page.asking import ACT, Ask, with_pause
from swarm_node.settings.page import PageConfig

TOKEN_FILE = "page.token"  # noqa: S105  in the home of a node, so that the address stays the same


async def show(config: PageConfig, home: Path, ask: Ask) -> None:
    """Serves the page of this home until it is told to stop. `ask` asks its node how it is."""
    from swarm_node.page.app import routes, static_files
    from swarm_node.page.guard import Guard
    from swarm_node.page.page import Page
    from swarm_node.page.public import FREE, PublicView
    from swarm_node.page.server import listener_at, serve
    from swarm_node.page.sight import PrivateSwarm, Sight

    listener, token = listener_at(config.listen), token_of(home)
    page = Page(home, with_pause(ask), monotonic)
    sight = Sight(shipped_tasks(), config.public_tasks, PrivateSwarm(home))
    public = PublicView(page, monotonic, sight) if config.public else None
    free = list(FREE if public else ())
    if config.open_metrics:
        free.append("/metrics")
    door = ("/node" if public else "/", static_files()["enter.html"])
    writes = [] if public else [ACT]  # a page with a public view takes no commands
    app = Guard(
        routes(page, public, home, sight), token, cookie_of(home), config.names, free, writes, door
    )
    addresses = shown(listener, token, public is not None)
    await serve(
        page, app, listener, lambda: print("\n".join(addresses), flush=True), config.with_parent
    )


def cookie_of(home: Path) -> str:
    """The name of the cookie that holds the token. Each folder has its own."""
    return f"swarm-node-{hashlib.sha256(os.fsencode(home.resolve())).hexdigest()[:8]}"


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
    read that file. A token that somebody else may have put there is replaced.
    """
    fresh = secrets.token_urlsafe(24)
    with suppress(OSError, ValueError):
        flags = os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(home / TOKEN_FILE, flags, 0o600)
        with os.fdopen(descriptor, "r+", encoding="utf-8", errors="replace") as file:
            kept = file.read(200).strip()
            if len(kept) >= 16 and is_made_here(home, TOKEN_FILE, kept):
                return kept
            with suppress(OSError):  # a stranger's may be for all to read
                os.fchmod(file.fileno(), 0o600)
            file.seek(0)
            file.truncate()
            file.write(fresh + "\n")
        note_made(home, TOKEN_FILE, fresh)
    return fresh
