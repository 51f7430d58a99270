"""One host of each kind: how it starts, what it withstands, and how it ends."""

import asyncio
import os
import signal
import socket
import struct
import sys
from contextlib import suppress
from typing import Any, Literal

import pytest
from libp2p.peer.id import ID
from libp2p.stream_muxer.yamux.yamux import Yamux

from protocol.identity import Identity
from swarm_node.common.errors import UserError
from swarm_node.network.backend import CallFailed, Failure
from swarm_node.network.transport import hivemind_backend, libraries
from swarm_node.network.transport.backends import check_addresses
from swarm_node.network.transport.hivemind_backend import HivemindBackend
from swarm_node.network.transport.libp2p.backend import Libp2pBackend, TrioStream
from swarm_node.settings import NetworkConfig
from tests.network.hosts import (
    ECHO,
    LIMIT,
    SILENT,
    SOON,
    raw_stream,
    started,
    stopped,
    until_asked,
    until_connected,
)
from tests.waiting import PATIENCE, until_awaited

pytestmark = pytest.mark.network
BACKENDS = ["hivemind", "libp2p"]


async def test_one_key_is_one_peer_whatever_the_library() -> None:
    identity = Identity.create()
    hosts = [await started(backend, identity) for backend in BACKENDS]
    dialler = await started("hivemind")
    for host in hosts:
        assert host.peer_id == identity.peer_id
        # Proven by its handshake
        assert await dialler.dial(await host.addresses(), SOON) == identity.peer_id
        await dialler.disconnect(identity.peer_id)


@pytest.mark.parametrize("backend", BACKENDS)
async def test_a_port_in_use_is_a_line_for_the_user(backend: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(
            UserError, match=f"port {port}/tcp: another program uses it; .* another --network.port"
        ):
            await started(backend, port=port)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("host", ["198.51.100.7", "2001:db8::7"])
async def test_an_address_this_machine_lacks_is_a_line_for_the_user(
    backend: str, host: str
) -> None:
    with pytest.raises(UserError, match="no such address"):
        await started(backend, host=host)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"host": "localhost"}, "'localhost' is not an IP address"),
        ({"peers": ("hello",)}, "^--peers: .*must look like"),
        ({"peers": ("/ip4/127.0.0.1/tcp/1",)}, "^--peers: .* must end in /p2p/"),
        ({"peers": ("/ip4/127.0.0.1/tcp/1 -b/p2p/x",)}, "^--peers: .*not a port"),
        # A comma separates two
        ({"peers": ("/ip4/127.0.0.1/tcp/1,-b/p2p/x",)}, "^--peers: .* must end in /p2p/"),
        ({"peers": ("/ip4/127.0.0.1/tcp/99999/p2p/x",)}, "^--peers: .*not a port"),
        ({"announce": ("/ip4/1.2.3/tcp/1",)}, "^--network.announce: "),
    ],
)
def test_a_malformed_address_is_a_line_for_the_user(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        check_addresses(NetworkConfig(**options))


async def test_the_death_of_p2pd_is_seen_at_once_and_calls_fail_cleanly() -> None:
    host, other = await started("hivemind"), await started("hivemind")
    # Over QUIC it would time out
    await other.dial([it for it in await host.addresses() if "/tcp/" in it], SOON)
    assert isinstance(host, HivemindBackend)
    closed = asyncio.create_task(host.wait_closed())
    pending = asyncio.create_task(other.call(host.peer_id, SILENT, b"?", LIMIT, PATIENCE))
    await until_asked(other)
    os.kill(host.daemon.pid, signal.SIGKILL)
    async with asyncio.timeout(SOON):
        reason = await closed
    assert reason.startswith("p2pd ended with code -9")
    with pytest.raises(CallFailed) as lost:
        await pending
    assert lost.value.failure == Failure.CLOSED  # and no timeout
    for work in (
        host.addresses(),
        host.connections(),
        host.call(other.peer_id, ECHO, b"?", LIMIT, 2.0),
    ):
        with pytest.raises(CallFailed):
            await work
    await stopped(host)
    again = await started("hivemind", host._options.identity)
    await other.dial(await again.addresses(), SOON)
    assert await other.call(again.peer_id, ECHO, b"back", LIMIT, SOON) == b">back"


@pytest.mark.parametrize("backend", BACKENDS)
async def test_300_silent_connections_do_not_keep_an_honest_peer_out(backend: str) -> None:
    victim, honest = await started(backend), await started("hivemind")
    address = next(it for it in await victim.addresses() if "/tcp/" in it)
    port = int(address.split("/")[4])
    idle = [socket.create_connection(("127.0.0.1", port), timeout=SOON) for _ in range(300)]
    await honest.dial([address], SOON)
    assert await honest.call(victim.peer_id, ECHO, b"let me in", LIMIT, SOON) == b">let me in"
    for connection in idle:
        connection.close()


@pytest.mark.parametrize("backend", BACKENDS)
async def test_streams_that_never_ask_make_room_for_one_that_does(backend: str) -> None:
    """Five peers open 64 streams each, as many as one may; 256 may be open in all. A sixth peer is
    answered.
    """
    victim = await started(backend)
    address = [it for it in await victim.addresses() if "/tcp/" in it]
    held = []  # a stream that nothing refers to is closed
    for idler in [await started("hivemind") for _ in range(5)]:
        await idler.dial(address, SOON)
        held += [await raw_stream(idler, victim.peer_id, ECHO) for _ in range(64)]
    honest = await started("hivemind")
    await honest.dial(address, SOON)
    for _ in range(5):
        assert await honest.call(victim.peer_id, ECHO, b"now me", LIMIT, SOON) == b">now me"


@pytest.mark.parametrize("backend", BACKENDS)
async def test_idle_identities_do_not_push_out_a_peer_that_was_of_use(backend: str) -> None:
    victim, honest, late = (
        await started(backend, max_connections=8),
        await started("hivemind"),
        await started("libp2p"),
    )
    address = [it for it in await victim.addresses() if "/tcp/" in it]
    await honest.dial(address, SOON)
    assert await honest.call(victim.peer_id, ECHO, b"before", LIMIT, SOON) == b">before"
    crowd = [await started("libp2p") for _ in range(20)]
    for idler in crowd:
        await idler.dial(address, SOON)
    assert honest.peer_id in {connection.peer for connection in await victim.connections()}
    assert await honest.call(victim.peer_id, ECHO, b"after", LIMIT, SOON) == b">after"
    await late.dial(address, SOON)
    assert await late.call(victim.peer_id, ECHO, b"me too", LIMIT, SOON) == b">me too"
    if backend == "libp2p":  # p2pd looks every 10 s, and not at connections younger than 20 s

        async def few() -> bool:
            return len(await victim.connections()) <= 8

        await until_awaited(few)


@pytest.mark.parametrize("backend", BACKENDS)
async def test_garbage_instead_of_a_handshake_hurts_nobody(backend: str) -> None:
    scripts = [
        b"\x00" * 1000,
        b"GET / HTTP/1.1\r\n\r\n",
        # A noise message of 64 KiB of nonsense
        b"\x13/multistream/1.0.0\n\x07/noise\n" + b"\xff" * 70_000,
        # Unencrypted: refused
        b"\x13/multistream/1.0.0\n\x11/plaintext/2.0.0\n" + b"\x08\x00" * 50,
        b"\xff\xff\xff\xff\x0f" + b"x" * 1000,  # a multistream message of 4 GiB
    ]

    victim, honest = await started(backend), await started("hivemind")
    address = next(it for it in await victim.addresses() if "/tcp/" in it)
    port = int(address.split("/")[4])
    for script in scripts:
        with socket.create_connection(("127.0.0.1", port), timeout=SOON) as garbage:
            garbage.sendall(script)
            await honest.dial([address], SOON)
            assert (
                await honest.call(victim.peer_id, ECHO, script[:50], LIMIT, SOON)
                == b">" + script[:50]
            )


@pytest.mark.parametrize("backend", BACKENDS)
async def test_garbage_on_the_protocols_of_libp2p_itself_hurts_nobody(backend: str) -> None:
    victim, liar = await started(backend), await started("hivemind")
    await liar.dial([it for it in await victim.addresses() if "/tcp/" in it], SOON)
    for protocol in (
        "/ipfs/id/1.0.0",
        "/ipfs/id/push/1.0.0",
        "/ipfs/ping/1.0.0",
        "/libp2p/circuit/relay/0.2.0/stop",
    ):
        for garbage in (
            b"\xff" * 200,
            b"\x05\xff\xff\xff\xff\xff",
            b"\x04\x0a\x02\x01\x01" + os.urandom(1000),
        ):
            with suppress(CallFailed, OSError):
                stream = await raw_stream(liar, victim.peer_id, protocol)
                await stream.write(garbage)
        assert await liar.call(victim.peer_id, ECHO, b"alive", LIMIT, SOON) == b">alive", protocol


async def test_a_peer_that_ignores_its_window_is_hung_up_on() -> None:
    """By itself py-libp2p keeps all that a peer sends. Here a peer sends 6 MB to a stream that
    nobody reads.
    """
    victim, liar, honest = (
        await started("libp2p"),
        await started("libp2p"),
        await started("hivemind"),
    )
    address = await victim.addresses()
    await liar.dial(address, SOON)
    assert isinstance(liar, Libp2pBackend)
    stream = await raw_stream(liar, victim.peer_id, SILENT)
    assert isinstance(stream, TrioStream)
    await stream.write(b"\0\0\0\1?")

    async def flood() -> None:
        (connection,) = liar.swarm.get_connections(ID.from_base58(victim.peer_id))
        yamux = connection.muxed_conn
        assert isinstance(yamux, Yamux)
        header = struct.pack("!BBHII", 0, 0, 0, stream._stream.muxed_stream.stream_id, 60_000)
        for _ in range(100):
            await yamux._write_frame(header + bytes(60_000))

    with suppress(Exception):
        await liar.thread.call(flood)

    async def alone() -> bool:
        return not await victim.connections()

    await until_awaited(alone)
    await honest.dial(address, SOON)
    assert await honest.call(victim.peer_id, ECHO, b"dry", LIMIT, SOON) == b">dry"


@pytest.mark.parametrize("backend", BACKENDS)
async def test_ipv6_alone_is_enough(backend: str) -> None:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            pass
    except OSError as error:
        pytest.skip(f"no IPv6 here: {error}")
    host, other = await started(backend, host="::1"), await started("hivemind", host="::1")
    addresses = await host.addresses()
    assert all(address.startswith("/ip6/::1/") for address in addresses)
    assert await other.dial(addresses, SOON) == host.peer_id
    assert await other.call(host.peer_id, ECHO, b"six", LIMIT, SOON) == b">six"


@pytest.mark.parametrize("backend", ["hivemind", "libp2p"])
def test_a_missing_library_is_a_line_for_the_user(
    backend: Literal["hivemind", "libp2p"], monkeypatch: Any
) -> None:
    monkeypatch.setitem(sys.modules, backend, None)  # None marks a module as missing
    with pytest.raises(
        UserError, match=r"is not installed; run: pip install .*, or choose (the|another) backend"
    ):
        libraries.make_backend(NetworkConfig(backend=backend), Identity.create())


async def test_a_connection_on_which_every_call_times_out_is_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """QUIC connections of p2pd can end up so. Here a handler that never answers stands in for
    one.
    """
    monkeypatch.setattr(hivemind_backend, "SILENT_SECONDS", 0.2)

    caller, callee = await started("hivemind"), await started("hivemind")
    await caller.dial(await callee.addresses(), SOON)

    async def in_vain() -> None:
        with pytest.raises(CallFailed) as caught:
            await caller.call(callee.peer_id, SILENT, b"?", LIMIT, 0.3)
        assert caught.value.failure == Failure.TIMEOUT

    await in_vain()  # answered in between: the connection is kept
    assert await caller.call(callee.peer_id, ECHO, b"there", LIMIT, SOON) == b">there"
    (before,) = await caller.connections()
    await in_vain()
    assert await caller.connections() == [before]
    await in_vain()
    await until_connected(caller, set())
    await until_connected(callee, set())
    # Streams open only where there is a connection
    await caller.dial(await callee.addresses(), SOON)
    assert await caller.call(callee.peer_id, ECHO, b"again", LIMIT, SOON) == b">again"
