"""The page of a person: the only one that takes anything in, a draft at a time. It runs in the contributor's process,
which trains nothing that a page could slow.
"""

import asyncio
import hashlib
import json
import os
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from protocol.limits import MAX_COMPLETION_CHARS
from swarm_node.extensions.contribute.desk import Desk, Press
from swarm_node.extensions.page.app import answer, static_files
from swarm_node.extensions.page.guard import Guard
from swarm_node.extensions.page.server import bound, server_of
from swarm_node.extensions.page.settings import listening
from swarm_node.extensions.page.start import shown, token_of

MOST_BYTES = 8 * MAX_COMPLETION_CHARS  # of what is sent: a draft, escaped
SCORED_SECONDS = 60.0  # after which a browser is told to look again later
END_SECONDS = 3.0
PRESSES = ("draft", "go on", "leave")
PRESS = "/api/press"


class Answers:
    """What each route says."""

    def __init__(self, desk: Desk) -> None:
        self._desk, self._files = desk, static_files()

    async def file(self, request: Request) -> Response:
        """What ships, by name."""
        return self._files.get(request.path_params["name"]) or Response("404: no such file\n", 404)

    async def index(self, _: Request) -> Response:
        """The page."""
        return self._files["person.html"]

    async def desk(self, _: Request) -> Response:
        """The question and its drafts."""
        return answer(self._desk.view())

    async def press(self, request: Request) -> Response:
        """Takes a draft, or goes on; says how it stands afterwards."""
        press = await _press(request)
        if press is None:
            return Response("400: not what this page sends\n", 400, media_type="text/plain")
        if not self._desk.press(press):
            return Response("503: too many answers wait\n", 503, media_type="text/plain")
        await asyncio.wait({asyncio.wrap_future(press.done)}, timeout=SCORED_SECONDS)
        return answer(self._desk.view())


async def _press(request: Request) -> Press | None:
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > MOST_BYTES:
            return None
    try:
        content: Any = json.loads(body)
        kind, number, text = content["kind"], content["number"], content.get("text", "")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    sound = kind in PRESSES and type(number) is int and isinstance(text, str)
    return Press(kind, number, text) if sound else None


def routes(desk: Desk) -> Starlette:
    """Of this page."""
    answers = Answers(desk)
    return Starlette(
        routes=[
            Route("/", answers.index),
            Route("/static/{name}", answers.file),
            Route("/api/desk", answers.desk),
            Route(PRESS, answers.press, methods=["POST"]),
        ]
    )


@contextmanager
def shown_in_browser(
    desk: Desk, home: Path, listen: str, names: Sequence[str], say: Callable[[str], None]
) -> Iterator[None]:
    """Serves as long as the context, in a thread of its own. UserError where the address cannot be had."""
    host, port = listening(listen)
    listener = bound(host, port, "--page")
    token = token_of(home, keep=True)
    cookie = f"swarm-node-{hashlib.sha256(os.fsencode(home.resolve())).hexdigest()[:8]}"
    app = Guard(routes(desk), token, cookie, names, writes=(PRESS,), entrance=("/", static_files()["enter.html"]))
    serving = _Serving(app, listener)
    serving.start()
    say("\n".join(shown(host, listener.getsockname()[1], token, public=False)))
    try:
        yield
    finally:
        desk.close()
        serving.end()


class _Serving(threading.Thread):
    def __init__(self, app: ASGIApp, listener: socket.socket) -> None:
        super().__init__(name="page", daemon=True)
        self._server, self._listener = server_of(app), listener

    def run(self) -> None:
        """The loop of the page."""
        asyncio.run(self._server.serve(sockets=[self._listener]))

    def end(self) -> None:
        """A browser that is connected is not waited for."""
        self._server.should_exit = True
        self.join(END_SECONDS)
