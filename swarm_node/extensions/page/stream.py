"""News as server-sent events. A viewer that does not read holds up nobody: each asks for what it has not had yet."""

import asyncio
import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from starlette.types import Receive, Scope, Send

if TYPE_CHECKING:
    from swarm_node.extensions.page.page import Page

HEARTBEAT = 15.0  # seconds after which something is said, so that a dead connection is found
RETRY = b"retry: 3000\n\n"  # milliseconds until a browser comes back


class Stream:
    """An ASGI application: one viewer."""

    def __init__(self, page: "Page", serial: int) -> None:
        self._page, self._serial = page, serial
        self._answer = -1  # number of the last answer of the node that was sent
        self._samples = -1

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"x-accel-buffering", b"no")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        gone = asyncio.create_task(_gone(receive))
        self._page.viewers += 1
        try:
            await send({"type": "http.response.body", "body": RETRY, "more_body": True})
            while not gone.done() and not self._page.closing:
                body = b"".join(self._body())
                if body:
                    await send({"type": "http.response.body", "body": body, "more_body": True})
                looked = await self._page.change(HEARTBEAT, gone)
                if not looked:
                    await send({"type": "http.response.body", "body": b": still here\n\n", "more_body": True})
            with suppress(OSError):
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            self._page.viewers -= 1
            gone.cancel()

    def _body(self) -> list[bytes]:
        """What this viewer has not had yet."""
        page, said = self._page, []
        page.asking.want()
        if page.loading:
            return []
        news = page.watched.news(self._serial)
        if news is None:
            self._serial = page.watched.state()["serial"]
            said.append(_event("anew", {}))
        else:
            said += [_event("news", piece) for _, piece in news]
            self._serial = news[-1][0] if news else self._serial
        if page.asking.number != self._answer:
            self._answer = page.asking.number
            said.append(_event("status", page.asking.answer))
        if page.samples.number != self._samples:
            self._samples = page.samples.number
            said.append(_event("samples", {"number": self._samples}))
        return said


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _event(name: str, content: dict[str, Any]) -> bytes:
    return f"event: {name}\ndata: {json.dumps(content)}\n\n".encode()
