"""The HTTP clients of this package, and what a server says went wrong.

Every client is made here, so that one function decides about proxies (proxies.py), for each request
by its own address: a client that follows a redirect asks again. `tests/house/test_http_clients.py`
finds a client that is made elsewhere. httpx is slow to import, so where few need it this module is
imported late.
"""

import html
import json
import os
import re
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any

import httpx

from swarm_node.common.proxies import proxy_for

_TITLE = re.compile(r"<title[^>]*>(.*?)</title", re.IGNORECASE | re.DOTALL)
_UNSEEN = re.compile(r"<(style|script)\b.*?</\1\s*>", re.IGNORECASE | re.DOTALL)
_TAG = re.compile(r"<[^>]*>")
# Where servers put their words, the most telling first
_WORDS = ("message", "msg", "detail", "error", "errors", "error_msg", "reason", "title")
_DEEP = 6  # objects within each other in which words are looked for
_MOST_BYTES = 64 * 1024  # of an answer in which words are looked for
_NAMED = 4  # errors of a list that are shown


def client(
    *,
    verify: ssl.SSLContext | bool = True,
    limits: httpx.Limits | None = None,
    **options: Any,
) -> httpx.Client:
    """A client whose requests go through the proxy that `proxy_for` names. Further options are
    those of httpx.Client. A request raises UserError where no request can go through the proxy.
    """
    transport = _Transport(_context(verify), limits or httpx.Limits())
    return httpx.Client(transport=transport, trust_env=False, **options)


def async_client(*, verify: ssl.SSLContext | bool = True, **options: Any) -> httpx.AsyncClient:
    """A client as `client` makes it, for an event loop."""
    transport = _AsyncTransport(_context(verify))
    return httpx.AsyncClient(transport=transport, trust_env=False, **options)


def _context(verify: ssl.SSLContext | bool) -> ssl.SSLContext | bool:
    # httpx's own, which hears SSL_CERT_FILE and SSL_CERT_DIR
    return httpx.create_ssl_context() if verify is True else verify


@cache
def obey_in_hub() -> None:
    """Makes the library of the hub, and with it transformers and datasets, send their requests
    through the proxy that `proxy_for` names. Parts of files that it gets by Xet go through a
    library of its own, in Rust, which reads the variables itself.
    """
    import huggingface_hub  # here: slow to import
    from huggingface_hub.utils import _http

    # Newer releases have a successor of httpx with the same classes
    library: Any = getattr(_http, "httpx2", httpx)
    # It adds the number of a request, and refuses it where HF_HUB_OFFLINE is set
    hooks = [hook] if (hook := getattr(_http, "hf_request_event_hook", None)) else []

    def made() -> Any:
        context = library.create_ssl_context()
        return library.Client(
            transport=_Transport(context, library.Limits(), library),
            trust_env=False,
            event_hooks={"request": hooks},
            follow_redirects=True,
            timeout=None,
        )

    huggingface_hub.set_client_factory(made)


def _proxy(request: httpx.Request, library: Any = httpx) -> Any | None:
    found = proxy_for(str(request.url))
    return library.Proxy(found.url) if found else None


def _key(proxy: Any | None) -> str:
    return f"{proxy.url} {proxy.raw_auth!r}" if proxy else ""


@contextmanager
def _as_an_error_of(library: Any, request: httpx.Request) -> Iterator[None]:
    """Raises the library's own error where the proxy does not speak SOCKS: the package that reads
    its words has errors that the library does not know.
    """
    try:
        yield
    except Exception as error:
        if type(error).__module__.partition(".")[0] != "socksio":
            raise
        what = f"it does not answer as a SOCKS proxy: {error}"
        raise library.ProxyError(what, request=request) from error


class _Transport(httpx.BaseTransport):
    """Keeps one pool of connections for each proxy, and one for none."""

    def __init__(
        self, verify: ssl.SSLContext | bool, limits: httpx.Limits, library: Any = httpx
    ) -> None:
        """`library`: httpx, or one that has its classes."""
        self._verify, self._limits, self._library = verify, limits, library
        self._pools: dict[str, httpx.HTTPTransport] = {}
        self._lock = Lock()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        proxy = _proxy(request, self._library)
        key = _key(proxy)
        with self._lock:
            if key not in self._pools:
                self._pools[key] = self._library.HTTPTransport(
                    verify=self._verify, limits=self._limits, proxy=proxy
                )
            pool = self._pools[key]
        with _as_an_error_of(self._library, request):
            return pool.handle_request(request)

    def close(self) -> None:
        for pool in self._pools.values():
            pool.close()


class _AsyncTransport(httpx.AsyncBaseTransport):
    """Does what `_Transport` does, for an event loop."""

    def __init__(self, verify: ssl.SSLContext | bool) -> None:
        self._verify = verify
        self._pools: dict[str, httpx.AsyncHTTPTransport] = {}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        proxy = _proxy(request)
        key = _key(proxy)
        if key not in self._pools:
            self._pools[key] = httpx.AsyncHTTPTransport(verify=self._verify, proxy=proxy)
        with _as_an_error_of(httpx, request):
            return await self._pools[key].handle_async_request(request)

    async def aclose(self) -> None:
        for pool in self._pools.values():
            await pool.aclose()


def cause_of(error: BaseException) -> str:
    """Why a request failed, as the system or the library says it."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLError):
            reason = str(cause.reason or cause).replace("_", " ").lower()
            return str(getattr(cause, "verify_message", "") or reason)
        if isinstance(cause, OSError) and cause.strerror:
            # asyncio has a text of its own, which hides why
            number = cause.errno or 0  # negative of a name that is not found
            return os.strerror(number) if number > 0 else cause.strerror
        cause = cause.__cause__ or cause.__context__
    return str(error) or type(error).__name__


def server_words(content: bytes | str) -> str:
    """What a server says went wrong, out of JSON, of a web page or of plain text; "" where it says
    nothing. Not yet made safe to show.
    """
    text = content[:_MOST_BYTES].decode(errors="replace") if isinstance(content, bytes) else content
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return _plain(text)
    return words_of(value)


def words_of(value: Any) -> str:
    """What a server says went wrong, out of JSON that is read already: see `server_words`."""
    return _plain(_words(value, _DEEP))


def _words(value: Any, deep: int) -> str:
    if isinstance(value, str):
        return value
    if deep == 0:
        return ""
    if isinstance(value, list):
        inner = [_words(one, deep - 1) for one in value[:_NAMED]]
        return "; ".join(filter(None, inner))
    if not isinstance(value, dict):
        return ""
    for name in _WORDS:
        if words := _words(value.get(name), deep - 1):
            return _where(value) + words
    return ""


def _where(value: dict[Any, Any]) -> str:
    """The field that an error of validation is about, as FastAPI names it: `body.n: `."""
    location = value.get("loc")
    if not isinstance(location, list):
        return ""
    return ".".join(str(part) for part in location[:_DEEP]) + ": "


def _plain(text: str) -> str:
    """The text on one line, and of a web page what it shows: its title, where it has one."""
    if "<" in text and re.search(r"<(html|!doctype|head|body|title)\b", text, re.IGNORECASE):
        title = _TITLE.search(text)
        shown = title[1] if title and title[1].strip() else _UNSEEN.sub(" ", text)
        text = html.unescape(_TAG.sub(" ", shown))
    return " ".join(text.split())
