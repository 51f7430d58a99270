"""The routes of a page. All but one are read-only; any other path is not found."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from swarm_node.page.asking import route
from swarm_node.page.guard import SHOWED_TOKEN, refused
from swarm_node.page.metrics import CONTENT_TYPE, exposition
from swarm_node.page.page import Page
from swarm_node.page.public import PublicView
from swarm_node.page.sight import EVERYTHING, Sight

MOST_VIEWERS = 100
HEARTBEAT = 15.0  # seconds without news until a comment is sent, so that a dead connection is found
RETRY = "retry: 3000\n\n"  # milliseconds until a browser comes back
Endpoint = Callable[[Request], Awaitable[Response]]
NOTHING = Sight()  # shows no name
LATER = {"retry-after": "30"}
TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


def static_files() -> Mapping[str, Response]:
    """The files that ship, by name. Each has a route of its own, so no path is looked up on
    disk.
    """
    folder = Path(__file__).with_name("static")
    return {
        file.name: Response(file.read_bytes(), media_type=TYPES[suffix])
        for file in folder.iterdir()
        if (suffix := file.name.rpartition(".")[2]) in TYPES
    }


def routes(page: Page, public: PublicView | None, home: Path, sight: Sight = NOTHING) -> Starlette:
    """`public`: the public view, if there is one; the page itself is then at /node, and takes no
    commands. `sight`: what is shown to those who did not show the token; the guard says who did.
    """
    files = static_files()

    async def state(_: Request) -> Response:
        return answer(page.state() | {"acts": public is None})

    async def samples(_: Request) -> Response:
        return answer({"number": page.samples.number, "samples": page.samples.last()})

    async def metrics(request: Request) -> Response:
        if page.loading:  # sums over a part of the events would look like a counter that leaps
            return PlainTextResponse("503: older events are still read\n", 503, LATER)
        status = await page.asking.fresh()
        return Response(exposition(page, status, sight_of(request, sight)), media_type=CONTENT_TYPE)

    async def stream(request: Request) -> Response:
        if page.viewers >= MOST_VIEWERS:
            return PlainTextResponse("503: too many viewers\n", 503, LATER)
        try:
            return NewsFeed(page, int(request.query_params.get("serial", "-1")))
        except ValueError:
            return NewsFeed(page, -1)

    table = [
        *(Route(f"/static/{name}", file) for name, file in files.items()),
        Route("/api/state", with_token(state)),
        Route("/api/samples", with_token(samples)),
        Route("/api/stream", with_token(stream)),
        Route("/metrics", metrics),
        Route("/node" if public else "/", files["index.html"]),
    ]
    if public is None:
        table.append(route(home))
    else:

        async def seen_by_all(_: Request) -> Response:
            return answer(public.view())

        table += [Route("/", files["public.html"]), Route("/api/public", seen_by_all)]
    return Starlette(routes=table)


def sight_of(request: Request, without_token: Sight) -> Sight:
    """What the viewer who asks may see. The guard says whether it showed the token."""
    return EVERYTHING if request.scope.get(SHOWED_TOKEN) is True else without_token


def with_token(endpoint: Endpoint) -> Endpoint:
    """The endpoint, for viewers who may see everything; others are refused."""

    async def guarded(request: Request) -> Response:
        may_see = sight_of(request, NOTHING).everything
        return await endpoint(request) if may_see else refused()

    return guarded


def answer(content: Mapping[str, Any]) -> Response:
    """A JSON response that never contains `<`, whatever text of strangers is in it."""
    text = json.dumps(content, ensure_ascii=True, allow_nan=False).replace("<", "\\u003c")
    return Response(text, media_type="application/json")


class NewsFeed(StreamingResponse):
    """News as server-sent events for one viewer, as long as it stays. A viewer that does not read
    holds up no other: each stream asks for the news that it has not sent yet.
    """

    def __init__(self, page: Page, serial: int) -> None:
        super().__init__(
            events(page, serial),
            media_type="text/event-stream",
            headers={"x-accel-buffering": "no"},
        )
        self._page = page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._page.viewers += 1
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._page.viewers -= 1


async def events(page: Page, serial: int) -> AsyncIterator[str]:
    """Server-sent events for a viewer that has the news up to `serial`: later news, answers of the
    node and samples.
    """
    answer = samples = -1  # numbers of the last answer and the last sample that were sent
    yield RETRY
    while not page.closing:
        page.asking.want()
        if not page.loading:
            news = page.node.news.after(serial)
            serial = page.node.news.serial
            if news is None:
                yield _event("anew", {})
            for _, piece in news or ():
                yield _event("news", piece)
            if page.asking.number != answer:
                answer = page.asking.number
                yield _event("status", page.asking.answer)
            if page.samples.number != samples:
                samples = page.samples.number
                yield _event("samples", {"number": samples})
        if not await page.change(HEARTBEAT):
            yield ": still here\n\n"


def _event(name: str, content: dict[str, Any]) -> str:
    return f"event: {name}\ndata: {json.dumps(content)}\n\n"
