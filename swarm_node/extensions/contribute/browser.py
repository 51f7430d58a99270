"""The page of a person: the only one that takes anything in, a draft at a time. It runs in the contributor's process,
which trains nothing that a page could slow.
"""

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from protocol.limits import MAX_COMPLETION_CHARS
from swarm_node.extensions.contribute.desk import Desk
from swarm_node.extensions.page.app import answer, static_files
from swarm_node.extensions.page.guard import Guard, posted
from swarm_node.extensions.page.server import listener_at, server_of
from swarm_node.extensions.page.start import cookie_of, shown, token_of

MOST_BYTES = 8 * MAX_COMPLETION_CHARS  # of what is sent: a draft, escaped
END_SECONDS = 3.0
PRESSES = ("draft", "go on", "leave")
PRESS = "/api/press"


def routes(desk: Desk) -> Starlette:
    """The question with its drafts, and a button that was pressed. A desk is asked in threads, since it may wait."""
    files = static_files()

    async def view(_: Request) -> Response:
        return answer(await asyncio.to_thread(desk.view))

    async def press(request: Request) -> Response:
        try:
            sent = await posted(request, MOST_BYTES)
            kind, number, text = sent["kind"], sent["number"], sent.get("text", "")
            sound = kind in PRESSES and type(number) is int and isinstance(text, str)
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
    desk: Desk, home: Path, listen: str, names: Sequence[str], say: Callable[[str], None]
) -> Iterator[None]:
    """Serves as long as the context, in a thread of its own. UserError where the address cannot be had."""
    listener = listener_at(listen, "--page")
    token, door = token_of(home), ("/", static_files()["enter.html"])
    server = server_of(Guard(routes(desk), token, cookie_of(home), names, writes=(PRESS,), entrance=door))
    serving = threading.Thread(target=lambda: asyncio.run(server.serve([listener])), name="page", daemon=True)
    serving.start()
    say("\n".join(shown(listener, token, public=False)))
    try:
        yield
    finally:
        desk.close()
        server.should_exit = True  # a browser that is connected is not waited for
        serving.join(END_SECONDS)
