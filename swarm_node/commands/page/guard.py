"""Who may see a page. Stands before all else: what is refused here reaches no other code."""

import hmac
import ipaddress
from collections.abc import Mapping, Sequence
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs, urlsplit

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADER_BYTES = 16 * 1024
COOKIE_SECONDS = 30 * 24 * 3600
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}
REFUSED = "401: this page needs its token. Open the address that swarm-node printed; it ends in ?token=...\n"


class Guard:
    """Host, origin, method, token, and the headers of every answer."""

    def __init__(
        self,
        app: ASGIApp,
        token: str,
        cookie: str,
        names: Sequence[str] = (),
        free: Sequence[str] = (),
        writes: Sequence[str] = (),
    ) -> None:
        """`names`: host names by which the page may be asked for, besides numbers and localhost. `free`: paths that
        need no token. `writes`: paths that take JSON by POST, from this page alone. An empty `token` opens all."""
        self._app, self._token, self._cookie = app, token.encode(), cookie
        self._names, self._free, self._writes = {name.lower() for name in names}, set(free), set(writes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers = {key.decode("latin-1"): value.decode("latin-1") for key, value in scope["headers"]}
        shown = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        entered = bool(self._token) and self._is_token(shown)

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *self._headers(scope["path"], entered)]
            await send(message)

        refusal = self._refusal(scope, headers, entered)
        await (refusal or self._app)(scope, receive, answer)

    def _refusal(self, scope: Scope, headers: Mapping[str, str], entered: bool) -> PlainTextResponse | None:
        host = headers.get("host", "")
        if not self._is_ours(host):
            hint = "start swarm-node page with --names NAME, if that is how it is reached"
            return PlainTextResponse(f"421: no page of this name here; {hint}\n", 421)
        if sum(len(key) + len(value) for key, value in headers.items()) > HEADER_BYTES:
            return PlainTextResponse("431: too many headers\n", 431)  # the server's bound sees only what comes in parts
        if refusal := self._of_method(scope, headers) or _of_origin(headers):
            return refusal
        if self._token and not entered and scope["path"] not in self._free and not self._may_enter(headers):
            return PlainTextResponse(REFUSED, 401, {"www-authenticate": "Bearer"})
        return None

    def _of_method(self, scope: Scope, headers: Mapping[str, str]) -> PlainTextResponse | None:
        if scope["path"] in self._writes:
            if scope["method"] != "POST":
                return PlainTextResponse("405: this takes a POST\n", 405, {"allow": "POST"})
            if "origin" not in headers or headers.get("content-type") != "application/json":
                return PlainTextResponse("403: not sent by this page\n", 403)
        elif scope["method"] not in ("GET", "HEAD"):
            return PlainTextResponse("405: a page only shows\n", 405, {"allow": "GET, HEAD"})
        return None

    def _is_ours(self, host: str) -> bool:
        """A number cannot be rebound to another address by DNS; a name can."""
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return name == "localhost" or name in self._names
        return True

    def _may_enter(self, headers: Mapping[str, str]) -> bool:
        scheme, _, bearer = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self._is_token(bearer.strip()):
            return True
        try:
            morsel = SimpleCookie(headers.get("cookie", "")).get(self._cookie)
        except CookieError:
            return False
        return morsel is not None and self._is_token(morsel.value)

    def _is_token(self, shown: str) -> bool:
        return hmac.compare_digest(shown.encode("utf-8", "replace"), self._token)

    def _headers(self, path: str, entered: bool) -> list[tuple[bytes, bytes]]:
        own = dict(HEADERS)
        own["cache-control"] = "max-age=3600" if path.startswith("/static/") else "no-store"
        if entered:
            attributes = f"Max-Age={COOKIE_SECONDS}; Path=/; HttpOnly; SameSite=Strict"
            own["set-cookie"] = f"{self._cookie}={self._token.decode()}; {attributes}"
        return [(key.encode(), value.encode()) for key, value in own.items()]


def _of_origin(headers: Mapping[str, str]) -> PlainTextResponse | None:
    origin, site = headers.get("origin"), headers.get("sec-fetch-site", "none")
    strange = origin is not None and urlsplit(origin).netloc.lower() != headers.get("host", "").lower()
    if strange or (site in ("cross-site", "same-site") and headers.get("sec-fetch-mode") != "navigate"):
        return PlainTextResponse("403: asked by another site\n", 403)
    return None
