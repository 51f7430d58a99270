"""One request to a server that may be anybody's: bounded in seconds and bytes, and never followed elsewhere."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from swarm_node.settings.secret import Secret, SecretUrl

MAX_HEADER_BYTES = 64 * 1024
MAX_ANSWER_BYTES = 4 * 1024 * 1024


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
    read, which a server that drips makes last; an event loop can give up whatever it waits for.
    """

    def __init__(self, url: SecretUrl, key: Secret, seconds: float) -> None:
        self._url, self._seconds = url, seconds
        headers = {"Accept-Encoding": "identity"}  # what is packed may unfold to any size
        if key:
            headers["Authorization"] = f"Bearer {key.get_secret_value()}"
        login = None if url.login is None else httpx.BasicAuth(*url.login)
        self._options: dict[str, Any] = {"headers": headers, "auth": login, "verify": httpx.create_ssl_context()}
        self._runner = asyncio.Runner()

    def post(self, path: str, body: Mapping[str, Any]) -> Reply:
        """Unsent, Broken."""
        try:
            return self._runner.run(self._post(self._url.at(path), body))
        except TimeoutError as error:
            raise Broken(f"the server's answer takes more than {self._seconds:g} s") from error
        except (httpx.ConnectError, httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
            raise Unsent(f"the server cannot be asked: {type(error).__name__}") from error
        except (httpx.HTTPError, httpx.StreamError) as error:
            raise Broken(f"the server breaks off: {type(error).__name__}") from error

    def close(self) -> None:
        """Ends what Ctrl-C has left under way."""
        self._runner.close()

    async def _post(self, url: str, body: Mapping[str, Any]) -> Reply:
        client = httpx.AsyncClient(**self._options, timeout=self._seconds, follow_redirects=False)
        async with asyncio.timeout(self._seconds), client, client.stream("POST", url, json=body) as response:
            if sum(len(name) + len(value) for name, value in response.headers.raw) > MAX_HEADER_BYTES:
                raise Broken(f"the server's headers are above {MAX_HEADER_BYTES >> 10} kB")
            content = bytearray()
            async for chunk in response.aiter_raw():
                content += chunk
                if len(content) > MAX_ANSWER_BYTES:
                    raise Broken(f"the server's answer is above {MAX_ANSWER_BYTES >> 20} MB")
            return Reply(response.status_code, bytes(content), response.headers.get("Retry-After", ""))
