"""Backends for tests: two hosts on loopback, driven on one event loop."""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from protocol.identity import Identity
from protocol.messages import PeerId
from swarm_node.network.backend import Backend, Caller, Handler, Stream
from swarm_node.network.transport.libraries import make_backend
from swarm_node.network.transport.streams import StreamBackend
from swarm_node.settings import NetworkConfig
from tests.waiting import PATIENCE, until_awaited

T = TypeVar("T")
ECHO = "/swarm-node-test/echo/1"
SILENT = "/swarm-node-test/silent/1"
RAISING = "/swarm-node-test/raising/1"
REFUSING = "/swarm-node-test/refusing/1"
WHO = "/swarm-node-test/who/1"
LIMIT = 512 * 1024  # bytes, request and reply
SOON = 30.0  # seconds for a call that takes milliseconds, as the machine may be busy


async def echo(caller: Caller, request: bytes) -> bytes:
    return b">" + request


async def silent(caller: Caller, request: bytes) -> bytes:
    askers.add(caller.peer)
    await asyncio.Event().wait()
    raise AssertionError


async def raising(caller: Caller, request: bytes) -> bytes:
    raise ZeroDivisionError("a bug in a handler")


async def refusing(caller: Caller, request: bytes) -> bytes:
    return b""


async def who(caller: Caller, request: bytes) -> bytes:
    return f"{caller.peer} {caller.address}".encode()


open_hosts: list[Backend] = []  # hosts that a test has started; they are closed when it ends
askers: set[PeerId] = set()  # callers whom `silent` keeps waiting, or has kept

HANDLERS: dict[str, Handler] = {
    ECHO: echo,
    SILENT: silent,
    RAISING: raising,
    REFUSING: refusing,
    WHO: who,
}


def config(backend: str, **options: Any) -> NetworkConfig:
    return NetworkConfig.model_validate(
        {"backend": backend, "host": "127.0.0.1", "relay": False, **options}
    )


async def started(
    backend: str, identity: Identity | None = None, bootstrap: bool = False, **options: Any
) -> Backend:
    most = {name: options.pop(name) for name in ["max_connections"] if name in options}
    host = make_backend(
        config(backend, **options), identity or Identity.create(), bootstrap, **most
    )
    await host.start(HANDLERS, dict.fromkeys(HANDLERS, LIMIT))
    open_hosts.append(host)
    return host


async def stopped(host: Backend) -> None:
    """Closes a host before the test ends."""
    open_hosts.remove(host)
    await host.close()


@dataclass
class Pair:
    """Two hosts that are not connected yet, and the loop they live on."""

    runner: asyncio.Runner
    a: Backend
    b: Backend

    @property
    def both_ways(self) -> tuple[tuple[Backend, Backend], ...]:
        """Caller and callee, and the other way round."""
        return (self.a, self.b), (self.b, self.a)

    def run(self, work: Coroutine[Any, Any, T], seconds: float = PATIENCE) -> T:
        return self.runner.run(asyncio.wait_for(work, seconds))


async def until_connected(host: Backend, peers: set[str], seconds: float = PATIENCE) -> None:
    async def connected() -> bool:
        return {connection.peer for connection in await host.connections()} == peers

    await until_awaited(connected, seconds, "connecting")


async def until_asked(caller: Backend) -> None:
    """Waits until this caller's call of SILENT has come to the other side."""
    await until_awaited(lambda: caller.peer_id in askers, what="the call")


async def raw_stream(host: Backend, peer: PeerId, protocol: str) -> Stream:
    """A stream on which a test may write what no honest node writes. The hosts are connected."""
    assert isinstance(host, StreamBackend)
    return await host.open_stream(peer, protocol, SOON)
