"""One request to a server that may be anybody's: bounded in seconds and bytes, and never followed elsewhere."""

import asyncio
from collections.abc import Coroutine, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from threading import Thread
from typing import Any, TypeVar

import httpx

from swarm_node.settings.secret import Secret, SecretUrl

MAX_HEADER_BYTES = 64 * 1024
MAX_ANSWER_BYTES = 4 * 1024 * 1024
END_SECONDS = 3.0  # that ending may take
T = TypeVar("T")


class Unsent(Exception):
    """The server was not reached, so the request cost nothing."""


class Broken(Exception):
    """The answer broke a bound, or off. What the request cost is not known."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back."""

    status: int
    content: bytes
    retry_after: str  # the header, as it came; "" without one


class Server:
    """`seconds` is the deadline of a whole request: name, connection, TLS, headers and content. httpx alone bounds each
    read, which a server that drips makes last; an event loop can give up whatever it waits for. It runs in a thread, so
    that Ctrl-C ends the wait for it and nothing in it.
    """

    def __init__(self, url: SecretUrl, key: Secret, seconds: float) -> None:
        self._url, self._login, self._seconds = url, url.login, seconds
        self._headers = {"Accept-Encoding": "identity"}  # what is packed may unfold to any size
        if key:
            self._headers["Authorization"] = f"Bearer {key.get_secret_value()}"
        self._tls = httpx.create_ssl_context()
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, daemon=True, name="api")
        self._thread.start()

    def post(self, path: str, body: Mapping[str, Any]) -> Reply:
        """Unsent, Broken."""
        try:
            return self._run(self._post(self._url.at(path), body)).result()
        except TimeoutError as error:
            raise Broken(f"the server's answer takes more than {self._seconds:g} s") from error
        except (httpx.ConnectError, httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
            raise Unsent(f"the server cannot be asked: {type(error).__name__}") from error
        except (httpx.HTTPError, httpx.StreamError) as error:
            raise Broken(f"the server breaks off: {type(error).__name__}") from error

    def close(self) -> None:
        """Ends what is still under way."""
        with suppress(TimeoutError):
            self._run(_cancel_others()).result(END_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(END_SECONDS)

    def _run(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def _post(self, url: str, body: Mapping[str, Any]) -> Reply:
        login = None if self._login is None else httpx.BasicAuth(*self._login)
        client = httpx.AsyncClient(
            headers=self._headers, auth=login, timeout=self._seconds, verify=self._tls, follow_redirects=False
        )
        async with asyncio.timeout(self._seconds), client, client.stream("POST", url, json=body) as response:
            if sum(len(name) + len(value) for name, value in response.headers.raw) > MAX_HEADER_BYTES:
                raise Broken(f"the server's headers are above {MAX_HEADER_BYTES >> 10} kB")
            content = bytearray()
            async for chunk in response.aiter_raw():
                content += chunk
                if len(content) > MAX_ANSWER_BYTES:
                    raise Broken(f"the server's answer is above {MAX_ANSWER_BYTES >> 20} MB")
            return Reply(response.status_code, bytes(content), response.headers.get("Retry-After", ""))


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
