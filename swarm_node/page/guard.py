"""Decides who may see a page. It stands before all other code: a request refused here reaches none
of it.
"""

import asyncio
import hmac
import ipaddress
from collections.abc import Container, Sequence
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from swarm_node.common.parsing import parse_json

HEADER_BYTES = 16 * 1024
COOKIE_SECONDS = 30 * 24 * 3600
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src "
    "'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}
REFUSED = (
    "401: this page needs its token. Open the address that swarm-node printed; it ends in "
    "#token=...\n"
)
SHOWED_TOKEN = "swarm_node.showed_token"  # noqa: S105  key of a scope: whether the viewer did
ENTER = "/api/enter"  # takes the token by POST, and gives the cookie
ENTRANCE_FILES = ("enter.js", "app.css", "icon.svg")
ENTER_BYTES = 1024  # of what is posted there
BODY_SECONDS = 10.0  # that a client may take to post something


class Guard:
    """Checks host, origin, method and token of every request, and sets the headers of every
    answer.
    """

    def __init__(
        self,
        app: ASGIApp,
        token: str,
        cookie: str,
        names: Sequence[str] = (),
        free: Sequence[str] = (),
        writes: Sequence[str] = (),
        entrance: tuple[str, ASGIApp] | None = None,
    ) -> None:
        """`names`: host names by which the page may be asked for, besides numbers and localhost.
        `free`: paths that need no token. `writes`: paths that take JSON by POST, from this page
        alone. `entrance`: the path of the page, and the file that a browser without the token gets
        there. That file reads the token behind the # of the address, a part that no browser sends,
        and posts it.
        """
        self._app, self._token, self._cookie = app, token.encode(), cookie
        self._names, self._free, self._writes = (
            {name.lower() for name in names},
            set(free),
            {ENTER, *writes},
        )
        self._door, self._entrance = entrance or ("", app)
        self._free |= {ENTER, *(f"/static/{name}" for name in ENTRANCE_FILES if entrance)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        path, request = scope["path"], Request(scope, receive)
        scope[SHOWED_TOKEN] = self._may_enter(request)
        refusal = self._refusal(request)
        if refusal is None and path == ENTER:
            refusal = await self._enter(request)

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                headers["cache-control"] = (
                    "max-age=3600" if path.startswith("/static/") else "no-store"
                )
            await send(message)

        locked = refusal is not None and refusal.status_code == 401
        at_door = self._entrance if locked and path == self._door else None
        await (at_door or refusal or self._app)(scope, receive, answer)

    def _refusal(self, request: Request) -> Response | None:
        headers, path = request.headers, request.scope["path"]
        if not self._is_ours(headers.get("host", "")):
            hint = "start swarm-node page with --names NAME, if that is how it is reached"
            return PlainTextResponse(f"421: no page of this name here; {hint}\n", 421)
        if sum(len(key) + len(value) for key, value in headers.raw) > HEADER_BYTES:
            # The server bounds only those that come in parts
            return PlainTextResponse("431: too many headers\n", 431)
        if refusal := _of_method(request, self._writes) or _of_origin(headers):
            return refusal
        if path not in self._free and not request.scope[SHOWED_TOKEN]:
            return refused()
        return None

    async def _enter(self, request: Request) -> Response:
        """204 and the cookie for the token, 401 for anything else."""
        try:
            shown = (await posted(request, ENTER_BYTES))["token"]
        except (ValueError, KeyError, TypeError):
            return refused()
        if not isinstance(shown, str) or not self._is_token(shown):
            return refused()
        entered = Response(status_code=204)
        entered.set_cookie(
            self._cookie, self._token.decode(), COOKIE_SECONDS, httponly=True, samesite="strict"
        )
        return entered

    def _is_ours(self, host: str) -> bool:
        """Whether the page may be asked for by this host: an IP address, which DNS cannot rebind,
        or a known name.
        """
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return name == "localhost" or name in self._names
        return True

    def _may_enter(self, request: Request) -> bool:
        scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self._is_token(bearer.strip()):
            return True
        return self._is_token(request.cookies.get(self._cookie, ""))

    def _is_token(self, shown: str) -> bool:
        return hmac.compare_digest(shown.encode("utf-8", "replace"), self._token)


async def posted(request: Request, most: int) -> Any:
    """The JSON body. ValueError if it exceeds `most` bytes, is no JSON, breaks off, or takes over
    `BODY_SECONDS`.
    """
    body = b""
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for part in request.stream():
                body += part
                if len(body) > most:
                    raise ValueError("too long")
        return parse_json(body)
    except (TimeoutError, ClientDisconnect) as error:
        raise ValueError("not whole") from error


def refused() -> PlainTextResponse:
    """What one gets without the token."""
    return PlainTextResponse(REFUSED, 401, {"www-authenticate": "Bearer"})


def _of_method(request: Request, writes: Container[str]) -> Response | None:
    """Refuses all but GET and HEAD; a path in `writes` takes only JSON by POST, sent by the page
    itself.
    """
    if request.scope["path"] in writes:
        if request.method != "POST":
            return PlainTextResponse("405: this takes a POST\n", 405, {"allow": "POST"})
        if (
            "origin" not in request.headers
            or request.headers.get("content-type") != "application/json"
        ):
            return PlainTextResponse("403: not sent by this page\n", 403)
    elif request.method not in ("GET", "HEAD"):
        return PlainTextResponse("405: a page only shows\n", 405, {"allow": "GET, HEAD"})
    return None


def _of_origin(headers: Headers) -> Response | None:
    origin, site = headers.get("origin"), headers.get("sec-fetch-site", "none")
    strange = (
        origin is not None and origin.lower().partition("://")[2] != headers.get("host", "").lower()
    )
    if strange or (
        site in ("cross-site", "same-site") and headers.get("sec-fetch-mode") != "navigate"
    ):
        return PlainTextResponse("403: asked by another site\n", 403)
    return None
