"""The routes of a page. All but one are read-only; what is not named here does not exist."""

import json
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from swarm_node.extensions.page.acting import route
from swarm_node.extensions.page.metrics import CONTENT_TYPE, exposition
from swarm_node.extensions.page.page import Page
from swarm_node.extensions.page.public import PublicView
from swarm_node.extensions.page.stream import Stream

MOST_VIEWERS = 100
LATER = {"retry-after": "30"}
TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


def static_files() -> Mapping[str, Response]:
    """What ships, by name. Each has a route of its own, so no path is looked up."""
    folder = resources.files("swarm_node.extensions.page") / "static"
    return {
        file.name: Response(file.read_bytes(), media_type=TYPES[suffix])
        for file in folder.iterdir()
        if (suffix := file.name.rpartition(".")[2]) in TYPES
    }


def routes(page: Page, public: PublicView | None, home: Path) -> Starlette:
    """`public`: what everybody may see; then the page itself is at /node, and can tell the node nothing."""
    files = static_files()

    async def state(_: Request) -> Response:
        return answer(page.state() | {"acts": public is None})

    async def samples(_: Request) -> Response:
        return answer({"number": page.samples.number, "samples": page.samples.last()})

    async def metrics(_: Request) -> Response:
        if page.loading:  # sums over a part of the events would look like a counter that leaps
            return PlainTextResponse("503: older events are still read\n", 503, LATER)
        return Response(exposition(page, await page.asking.fresh()), media_type=CONTENT_TYPE)

    async def stream(request: Request) -> Response:
        if page.viewers >= MOST_VIEWERS:
            return PlainTextResponse("503: too many viewers\n", 503, LATER)
        try:
            return Stream(page, int(request.query_params.get("serial", "-1")))
        except ValueError:
            return Stream(page, -1)

    table = [
        *(Route(f"/static/{name}", file) for name, file in files.items()),
        Route("/api/state", state),
        Route("/api/samples", samples),
        Route("/api/stream", stream),
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


def answer(content: Mapping[str, Any]) -> Response:
    """JSON, whatever text of strangers is in it: `<` never stands in what is sent."""
    text = json.dumps(content, ensure_ascii=True, allow_nan=False).replace("<", "\\u003c")
    return Response(text, media_type="application/json")
