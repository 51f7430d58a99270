"""The socket of a page: uvicorn, with bounds on what clients may cost."""

import asyncio
import contextlib
import ipaddress
import os
import signal
import socket
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from ipaddress import IPv4Address, IPv6Address
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from swarm_node.common.errors import UserError, reason_of
from swarm_node.page.guard import HEADER_BYTES
from swarm_node.page.page import Page
from swarm_node.settings.page import LISTEN, listening

HEADER_SECONDS = 10.0  # that a client may take for a request
READER_SECONDS = 20.0  # that a client may leave what was sent to it unread
MOST_CONNECTIONS = 256
# Of those, at most, from other machines, so that places are left for this machine's owner
OTHERS = 192
FROM_ONE = 16  # of those, at most, from one address


class ConnectionSlots:
    """The places of connected clients. A place is given when a connection is made, before anything
    is read from it.
    """

    def __init__(
        self,
        is_owner: Callable[[IPv4Address | IPv6Address], bool] = lambda address: address.is_loopback,
    ) -> None:
        """`is_owner`: whether an address is this machine's own; other addresses leave places for
        these.
        """
        self._is_owner = is_owner
        # By address; None is the owner
        self._taken: Counter[IPv4Address | IPv6Address | None] = Counter()

    def take(self, host: str) -> Callable[[], None] | None:
        """Takes a place. Returns what gives it back; None where there is no place for this
        address.
        """
        address = party(host)
        whose = None if self._is_owner(address) else address
        strangers = self._taken.total() - self._taken[None]
        if self._taken.total() >= MOST_CONNECTIONS:
            return None
        if whose is not None and (self._taken[whose] >= FROM_ONE or strangers >= OTHERS):
            return None
        self._taken[whose] += 1
        return lambda: self._leave(whose)

    def _leave(self, whose: IPv4Address | IPv6Address | None) -> None:
        self._taken[whose] -= 1
        if not self._taken[whose]:
            del self._taken[whose]


def party(host: str) -> IPv4Address | IPv6Address:
    """The address by which connections are counted: for IPv6 the whole /64, which one machine may
    have.
    """
    address = ipaddress.ip_address(host.partition("%")[0])
    if isinstance(address, IPv4Address):
        return address
    return address.ipv4_mapped or (
        address if address.is_loopback else IPv6Address(int(address) >> 64 << 64)
    )


class BoundedProtocol(H11Protocol):
    """Drops clients that are slow to send a request or to read an answer; uvicorn itself waits for
    them for ever.
    """

    places: ConnectionSlots  # of its server
    _give_back: Callable[[], None] | None = None
    _asking: asyncio.TimerHandle | None = None
    _reading: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Starts the clock for the first request, or drops the connection where there is no place
        for it.
        """
        host = (transport.get_extra_info("peername") or ("",))[0]
        self._give_back = self.places.take(host) if host else None
        if self._give_back is None:
            transport.abort()  # before uvicorn knows of the connection
            return
        super().connection_made(transport)
        self._expect()

    def data_received(self, data: bytes) -> None:
        """Takes bytes of a request, and stops the clock that limits its time once the request is
        complete.
        """
        if self._give_back is None:
            return
        super().data_received(data)
        self._expect()

    def _expect(self) -> None:
        """Lets the clock for requests run while no request is complete."""
        waiting = self.cycle is None or self.cycle.response_complete
        if waiting and self._asking is None:
            self._asking = self.loop.call_later(HEADER_SECONDS, self.transport.abort)
        elif not waiting and self._asking is not None:
            self._asking.cancel()
            self._asking = None

    def pause_writing(self) -> None:
        """Starts the clock for reading, as the client does not read."""
        super().pause_writing()
        self._reading = self.loop.call_later(READER_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """Stops the clock for reading, as the client reads again."""
        self._stop_reading_clock()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Gives the place back, and stops both clocks."""
        if self._give_back is None:
            return
        self._give_back()
        self._stop_reading_clock()
        if self._asking is not None:
            self._asking.cancel()
        super().connection_lost(exc)

    def _stop_reading_clock(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None


class Server(uvicorn.Server):
    """Leaves signals to `serve`: uvicorn would raise them again at its end, and they would give the
    exit code.
    """

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Captures no signal."""
        yield


def listener_at(listen: str) -> socket.socket:
    """A listening socket at HOST:PORT. Where the port of the default address is taken, a free port
    is used. UserError where it cannot listen.
    """
    host, port = listening(listen)
    found = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        try:
            found.bind((host, port))
            found.listen(128)  # before its address is shown
        except OSError:
            if listen != LISTEN:
                raise
            found.bind((host, 0))
            found.listen(128)
    except OSError as error:
        found.close()
        where = f"{host}:{port}"
        raise UserError(
            f"cannot listen on {where}: {reason_of(error)}; choose another --listen HOST:PORT"
        ) from error
    return found


def server_of(app: ASGIApp, places: ConnectionSlots | None = None) -> Server:
    """A server with every bound of this module."""
    protocol = type("BoundedProtocol", (BoundedProtocol,), {"places": places or ConnectionSlots()})
    options: dict[str, Any] = {
        "log_level": "error",
        "access_log": False,
        "server_header": False,
        "lifespan": "off",
    }
    config = uvicorn.Config(
        app,
        http=protocol,
        ws="none",
        proxy_headers=False,
        h11_max_incomplete_event_size=HEADER_BYTES,
        # `ConnectionSlots` refuses first; this bounds requests that outlive their place
        limit_concurrency=MOST_CONNECTIONS + 1,
        timeout_keep_alive=int(HEADER_SECONDS),
        timeout_graceful_shutdown=1,
        **options,
    )
    return Server(config)


async def serve(
    page: Page, app: ASGIApp, listener: socket.socket, ready: Callable[[], None], with_parent: bool
) -> None:
    """Serves until SIGINT or SIGTERM or, `with_parent`, until standard input is closed."""
    server = server_of(app)
    loop = asyncio.get_running_loop()

    def leave() -> None:
        server.should_exit = True
        page.close()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, leave)
    if with_parent:
        loop.add_reader(sys.stdin.fileno(), lambda: _read_on(loop, leave))
    following = asyncio.create_task(page.follow())
    try:
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        ready()
        await asyncio.wait({serving, following}, return_when=asyncio.FIRST_COMPLETED)
        if following.done():
            following.result()  # raises the error that ended it
        await serving
    finally:
        following.cancel()


def _read_on(loop: asyncio.AbstractEventLoop, leave: Callable[[], None]) -> None:
    """The process that started the page writes nothing. When its pipe is closed, that process has
    ended.
    """
    if not os.read(sys.stdin.fileno(), 1024):
        loop.remove_reader(sys.stdin.fileno())
        leave()
