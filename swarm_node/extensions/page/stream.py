"""News as server-sent events. A viewer that does not read holds up nobody: each asks for what it has not had yet."""

import json
from collections.abc import AsyncIterator
from typing import Any

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from swarm_node.extensions.page.page import Page

HEARTBEAT = 15.0  # seconds after which something is said, so that a dead connection is found
RETRY = "retry: 3000\n\n"  # milliseconds until a browser comes back


class Stream(StreamingResponse):
    """One viewer, as long as it stays."""

    def __init__(self, page: Page, serial: int) -> None:
        super().__init__(events(page, serial), media_type="text/event-stream", headers={"x-accel-buffering": "no"})
        self._page = page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._page.viewers += 1
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._page.viewers -= 1


async def events(page: Page, serial: int) -> AsyncIterator[str]:
    """What a viewer has not had yet that knows everything up to `serial`."""
    answer = samples = -1  # numbers of those that were sent last
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
