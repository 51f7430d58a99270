"""What every backend does, alone and against the other one."""

import asyncio
import os
import socket
from contextlib import suppress

import pytest

from protocol.identity import Identity
from swarm_node.network.backend import Backend, CallFailed, Failure, Stream
from swarm_node.network.transport import streams
from swarm_node.network.transport.hivemind_backend import HivemindBackend
from swarm_node.network.transport.libp2p.backend import Libp2pBackend
from tests.network.hosts import (
    ECHO,
    LIMIT,
    RAISING,
    REFUSING,
    SILENT,
    SOON,
    WHO,
    Pair,
    askers,
    raw_stream,
    until_asked,
    until_connected,
)
from tests.waiting import PATIENCE

pytestmark = pytest.mark.network


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "REFUSAL_SECONDS", 0.05)


async def failure(work: object) -> Failure:
    with pytest.raises(CallFailed) as caught:
        await work  # type: ignore[misc]
    return caught.value.failure


@pytest.mark.parametrize("size", [0, 1, 64 * 1024, LIMIT - 1])
def test_calls_go_both_ways(pair: Pair, size: int) -> None:
    request = os.urandom(size)
    for caller, callee in pair.both_ways:
        assert pair.run(caller.call(callee.peer_id, ECHO, request, LIMIT, SOON)) == b">" + request


def test_the_caller_is_proven(pair: Pair) -> None:
    for caller, callee in pair.both_ways:
        peer, address = (
            pair.run(caller.call(callee.peer_id, WHO, b"", 1000, SOON)).decode().split(" ")
        )
        assert peer == caller.peer_id
        assert address.startswith("/ip4/127.0.0.1/")


@pytest.mark.parametrize(
    ("protocol", "size", "limit", "failures"),
    [
        (ECHO, 1000, 1000, {Failure.TOO_BIG}),  # the reply is one byte over the limit
        # The request is too big: no handler sees it
        (ECHO, LIMIT + 1, LIMIT, {Failure.REFUSED, Failure.CLOSED}),
        ("/swarm-node-test/echo/2", 1, LIMIT, {Failure.UNSUPPORTED}),
        # Callers see no difference
        *((protocol, 1, LIMIT, {Failure.REFUSED}) for protocol in (REFUSING, RAISING)),
    ],
)
def test_a_call_that_fails_says_why_and_the_next_one_is_answered(
    pair: Pair, protocol: str, size: int, limit: int, failures: set[Failure]
) -> None:
    for caller, callee in pair.both_ways:
        assert (
            pair.run(failure(caller.call(callee.peer_id, protocol, bytes(size), limit, SOON)))
            in failures
        )
        assert pair.run(caller.call(callee.peer_id, ECHO, b"?", LIMIT, SOON)) == b">?"


def kept(caller: Backend, callee: Backend, protocol: str) -> Stream:
    """The stream on which the next call will be made."""
    assert isinstance(caller, HivemindBackend | Libp2pBackend)
    return caller._asking._kept[callee.peer_id, protocol].stream


def test_calls_one_after_another_share_a_stream(pair: Pair) -> None:
    for caller, callee in pair.both_ways:
        pair.run(caller.call(callee.peer_id, ECHO, b"first", LIMIT, SOON))
        stream = kept(caller, callee, ECHO)
        for text in (b"second", b"", b"a third of a megabyte" * 16_000):
            assert pair.run(caller.call(callee.peer_id, ECHO, text, LIMIT, SOON)) == b">" + text
            assert kept(caller, callee, ECHO) is stream


def test_a_stream_that_the_other_side_ended_is_replaced_within_the_call(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "IDLE_SECONDS", 0.05)
    for caller, callee in pair.both_ways:
        pair.run(caller.call(callee.peer_id, ECHO, b"first", LIMIT, SOON))
        stream = kept(caller, callee, ECHO)
        with pytest.raises((EOFError, OSError)):
            pair.run(stream.read(1))
        assert pair.run(caller.call(callee.peer_id, ECHO, b"second", LIMIT, SOON)) == b">second"
        assert kept(caller, callee, ECHO) is not stream


def test_a_stream_is_not_used_again_after_a_failed_call(pair: Pair) -> None:
    for caller, callee in pair.both_ways:
        pair.run(failure(caller.call(callee.peer_id, REFUSING, b"?", LIMIT, SOON)))
        pair.run(failure(caller.call(callee.peer_id, SILENT, b"?", LIMIT, 0.1)))
        for protocol in (REFUSING, SILENT):
            with pytest.raises(KeyError):
                kept(caller, callee, protocol)


def test_streams_that_are_not_used_are_closed(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    for caller, callee in pair.both_ways:
        pair.run(caller.call(callee.peer_id, ECHO, b"first", LIMIT, SOON))
        monkeypatch.setattr(streams, "KEPT_SECONDS", 0.0)
        # Any next call closes the other stream
        pair.run(caller.call(callee.peer_id, WHO, b"", LIMIT, SOON))
        with pytest.raises(KeyError):
            kept(caller, callee, ECHO)
        monkeypatch.undo()


def test_a_silent_peer_costs_no_more_than_the_timeout(pair: Pair) -> None:
    async def timed(caller: Backend, callee: Backend) -> float:
        start = asyncio.get_running_loop().time()
        assert (
            await failure(caller.call(callee.peer_id, SILENT, b"?", LIMIT, 0.3)) == Failure.TIMEOUT
        )
        return asyncio.get_running_loop().time() - start

    for caller, callee in pair.both_ways:
        assert 0.25 < pair.run(timed(caller, callee)) < SOON


def test_many_calls_at_once(pair: Pair) -> None:
    """Four calls are in work at once; the others wait for their turn, and none is lost."""

    async def flood(caller: Backend, callee: Backend) -> list[bytes]:
        calls = (
            caller.call(callee.peer_id, ECHO, bytes([n]) * 20_000, LIMIT, SOON) for n in range(32)
        )
        return await asyncio.gather(*calls)

    for caller, callee in pair.both_ways:
        assert pair.run(flood(caller, callee)) == [
            b">" + bytes([number]) * 20_000 for number in range(32)
        ]


def test_who_is_dialled_is_who_answers(pair: Pair) -> None:
    async def scenario() -> None:
        someone = Identity.create().peer_id
        address = (await pair.a.addresses())[0].replace(pair.a.peer_id, someone)
        assert await failure(pair.b.dial([address], SOON)) == Failure.UNREACHABLE
        assert someone not in {connection.peer for connection in await pair.b.connections()}

    pair.run(scenario())


def test_a_dial_that_leads_nowhere_fails_and_does_no_more(pair: Pair) -> None:
    peer = Identity.create().peer_id
    for address in (
        *(
            "",
            "hello",
            "/ip4/127.0.0.1/tcp/1",
            "/ip4/127.0.0.1/tcp/1/p2p/short",
            f"/ip4/127.0.0.300/tcp/1/p2p/{peer}",
        ),
        *(f"/ip4/127.0.0.1/tcp/99999/p2p/{peer}", f"/unix/tmp/x/p2p/{peer}"),
        f"/ip4/127.0.0.1/tcp/1/p2p/{peer}",  # well-formed; nobody listens there
    ):
        assert pair.run(failure(pair.a.dial([address], SOON))) == Failure.UNREACHABLE, address


def test_an_address_that_never_answers_takes_no_longer_than_the_timeout(pair: Pair) -> None:
    # The kernel accepts, nobody ever says a word
    with socket.create_server(("127.0.0.1", 0)) as mute:
        address = f"/ip4/127.0.0.1/tcp/{mute.getsockname()[1]}/p2p/{Identity.create().peer_id}"
        assert pair.run(failure(pair.a.dial([address], 0.3)), seconds=SOON) == Failure.UNREACHABLE


def test_an_unknown_peer_cannot_be_called(pair: Pair) -> None:
    got = pair.run(failure(pair.a.call(Identity.create().peer_id, ECHO, b"?", LIMIT, 2.0)))
    assert got == Failure.UNREACHABLE


def test_disconnect_hangs_up_on_both_sides_and_a_dial_heals_it(pair: Pair) -> None:
    async def scenario() -> None:
        await until_connected(pair.a, {pair.b.peer_id})
        await pair.a.disconnect(pair.b.peer_id)
        await until_connected(pair.b, set())
        await until_connected(pair.a, set())
        assert await pair.b.dial(await pair.a.addresses(), SOON) == pair.a.peer_id
        assert await pair.b.call(pair.a.peer_id, ECHO, b"again", LIMIT, SOON) == b">again"

    pair.run(scenario())


def test_addresses_are_full_and_name_the_host(pair: Pair) -> None:
    for host in (pair.a, pair.b):
        addresses = pair.run(host.addresses())
        assert addresses and all(address.startswith("/ip4/127.0.0.1/") for address in addresses)
        assert all(address.endswith(f"/p2p/{host.peer_id}") for address in addresses)
        other = pair.b if host is pair.a else pair.a
        for address in addresses:  # each of them works
            if "/quic-v1/" in address and isinstance(other, Libp2pBackend):
                continue  # py-libp2p has TCP only
            with suppress(CallFailed):
                pair.run(other.disconnect(host.peer_id))
            assert pair.run(other.dial([address], SOON)) == host.peer_id


@pytest.mark.parametrize(
    "garbage",
    [
        b"",  # opened, and nothing sent
        b"\0",  # a cut-off length
        b"\xff\xff\xff\xff" + bytes(100),  # 4 GiB announced
        b"\0\0\0\x08" + b"half",  # less than announced
        b"\0\0\0\x01xyz" + bytes(50_000),  # more than announced
    ],
    ids=["nothing", "cut", "huge", "short", "long"],
)
def test_garbage_on_a_stream_hurts_nobody(pair: Pair, garbage: bytes) -> None:
    async def scenario(liar: Backend, victim: Backend) -> None:
        streams = [await raw_stream(liar, victim.peer_id, ECHO) for _ in range(8)]
        for stream in streams:
            with suppress(EOFError, OSError):  # the victim may hang up before all is written
                await stream.write(garbage)
        assert await liar.call(victim.peer_id, ECHO, b"honest", LIMIT, SOON) == b">honest"
        for stream in streams:
            await stream.close()
        assert await victim.call(liar.peer_id, ECHO, b"honest", LIMIT, SOON) == b">honest"

    for liar, victim in pair.both_ways:
        pair.run(scenario(liar, victim))


def test_a_peer_that_hangs_up_before_it_replies_is_noticed_at_once(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Else the callee itself ends the call after a while
    monkeypatch.setattr(streams, "CALL_SECONDS", PATIENCE)

    async def scenario(caller: Backend, callee: Backend) -> Failure:
        askers.discard(caller.peer_id)
        pending = asyncio.create_task(
            failure(caller.call(callee.peer_id, SILENT, b"?", LIMIT, PATIENCE))
        )
        await until_asked(caller)
        await callee.disconnect(caller.peer_id)
        async with asyncio.timeout(SOON):
            return await pending

    for caller, callee in pair.both_ways:
        assert pair.run(scenario(caller, callee)) == Failure.CLOSED
        # At once, and not over the ended connection
        pair.run(pair.b.dial(pair.run(pair.a.addresses()), SOON))
        for host, other in pair.both_ways:
            pair.run(until_connected(host, {other.peer_id}))


def test_a_dial_while_the_other_side_still_hangs_up_is_not_undone(pair: Pair) -> None:
    async def scenario(host: Backend, other: Backend) -> None:
        await until_connected(host, {other.peer_id})
        hanging_up = asyncio.create_task(host.disconnect(other.peer_id))
        await until_connected(other, set())
        await other.dial(await host.addresses(), SOON)
        await hanging_up
        await until_connected(host, {other.peer_id})

    for host, other in pair.both_ways:
        pair.run(scenario(host, other))


def test_calls_given_up_midway_leave_the_connection_whole(fresh: Pair) -> None:
    """A cancelled write must not leave half a frame on the connection that other calls share. The
    test uses TCP: QUIC, which p2pd prefers once it knows a QUIC address, loses the window of calls
    given up (docs/results/backends.md).
    """
    on_tcp = [address for address in fresh.run(fresh.a.addresses()) if "/tcp/" in address]
    fresh.run(fresh.b.dial(on_tcp, SOON))

    async def scenario(caller: Backend, callee: Backend) -> None:
        await until_connected(caller, {callee.peer_id})
        before = [connection.address for connection in await caller.connections()]
        assert ["/tcp/" in address for address in before] == [True]
        for moment in range(1, 13):
            calls = (
                caller.call(callee.peer_id, ECHO, bytes(LIMIT - 1), LIMIT, moment / 500)
                for _ in range(4)
            )
            await asyncio.gather(*calls, return_exceptions=True)
        assert await caller.call(callee.peer_id, ECHO, b"whole?", LIMIT, SOON) == b">whole?"
        assert [connection.address for connection in await caller.connections()] == before

    for caller, callee in fresh.both_ways:
        fresh.run(scenario(caller, callee))
