"""The page on which a person answers a swarm's questions. It runs in the contributor's process,
which trains nothing that a page could slow.

It takes one thing in, a button that was pressed, as JSON by POST. The guard has checked that it
comes from this page, with the token. Text of a draft is data: it is bounded, scored in the sandbox
as text of any stranger, and never evaluated or printed.
"""

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Any, Protocol

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from swarm_node.page import checked
from swarm_node.page.app import answer, static_files
from swarm_node.page.asking import Ask, Asking
from swarm_node.page.guard import Guard, posted
from swarm_node.page.server import listener_at, server_of
from swarm_node.page.start import cookie_of, shown, token_of

PRESS = (
    "/api/press"  # takes {"kind": one of the presses, "number": of the question, "text": a draft}
)
MOST_BYTES = 128 * 1024  # of what is posted: the longest answer, with each character escaped
END_SECONDS = 3.0
MOST_DOWNLOADS = 512  # groups of which the node says how many others have it


class ControlPanel(Protocol):
    """What the page shows, and where it presses: see `contribute/desk.py`. `view` and `press` may
    wait.
    """

    @property
    def presses(self) -> Sequence[str]:
        """The kinds of buttons."""
        ...

    def view(self) -> dict[str, Any]:
        """The desk as plain data."""
        ...

    def press(self, kind: str, number: int, text: str) -> None:
        """A button was pressed."""
        ...

    def close(self) -> None:
        """Tells the person that no more questions come."""
        ...


class Reach:
    """How far the person's groups came, as the contributor's own node knows it."""

    def __init__(self, asking: Asking) -> None:
        self._asking = asking
        self._downloads: dict[str, int] = {}  # the most that were seen: a new process counts anew

    async def now(self) -> dict[str, Any]:
        """`connected`: other nodes, None where the node does not say; `downloads`: how many nodes
        have each group, by its content hash.
        """
        try:
            network = (await self._asking.fresh())["network"]
            enabled = network["enabled"] is True
            connected = checked.whole(network["connected"]) if enabled else 0
            counts = checked.table(network.get("downloads", {}), checked.whole, MOST_DOWNLOADS)
        except (KeyError, TypeError, ValueError):
            return {"connected": None, "enabled": True, "downloads": self._downloads}
        for name, count in counts.items():
            self._downloads[name] = max(count, self._downloads.get(name, 0))
        return {"connected": connected, "enabled": enabled, "downloads": self._downloads}


def routes(desk: ControlPanel, asking: Asking) -> Starlette:
    """The desk, and a button that was pressed. A desk is asked in threads, since it may wait."""
    files, reach = static_files(), Reach(asking)

    async def view(_: Request) -> Response:
        shown = await asyncio.to_thread(desk.view)
        return answer(shown | {"reach": await reach.now()})

    async def press(request: Request) -> Response:
        try:
            sent = await posted(request, MOST_BYTES)
            kind, number, text = sent["kind"], sent["number"], sent.get("text", "")
            sound = kind in desk.presses and type(number) is int and isinstance(text, str)
        except (ValueError, KeyError, TypeError, AttributeError):
            sound = False
        if not sound:
            return PlainTextResponse("400: not what this page sends\n", 400)
        await asyncio.to_thread(desk.press, kind, number, text)
        return await view(request)

    return Starlette(
        routes=[
            *(Route(f"/static/{name}", file) for name, file in files.items()),
            Route("/", files["person.html"]),
            Route("/api/desk", view),
            Route(PRESS, press, methods=["POST"]),
        ]
    )


@contextmanager
def shown_in_browser(
    desk: ControlPanel,
    home: Path,
    listen: str,
    names: Sequence[str],
    ask: Ask,
    say: Callable[[str], None],
) -> Iterator[None]:
    """Serves as long as the context, in a thread of its own. `ask` asks the contributor's node how
    it is. UserError where it cannot listen.
    """
    listener, token = listener_at(listen), token_of(home)
    entrance = ("/", static_files()["enter.html"])
    app = routes(desk, Asking(home, ask, monotonic))
    guard = Guard(app, token, cookie_of(home), names, writes=(PRESS,), entrance=entrance)
    server = server_of(guard)
    serving = threading.Thread(
        target=lambda: asyncio.run(server.serve([listener])), name="page", daemon=True
    )
    serving.start()
    say("\n".join(shown(listener, token, public=False)))
    try:
        yield
    finally:
        desk.close()
        server.should_exit = True  # a browser that is connected is not waited for
        serving.join(END_SECONDS)
