"""Admission by real daemons: one party holds a sixteenth of streams and connections, and others are
let in.
"""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from lab.benchmarks.internet.namespaces import Internet, Namespace, reason
from lab.benchmarks.internet.remote import Remote, RemoteFailed
from swarm_node.network import parties
from swarm_node.network.backend import Backend, CallFailed, Stream
from swarm_node.network.transport.libp2p import backend as libp2p_backend
from swarm_node.network.transport.streams import ask
from tests.network.hosts import ECHO, LIMIT, SOON, raw_stream, started
from tests.waiting import PATIENCE, until, until_awaited

pytestmark = pytest.mark.network
BACKENDS = ["hivemind", "libp2p"]
MISSING = reason()
SHARE = 4  # of 64 connections


@pytest.fixture
def internet_here(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Loopback counts as a part of the internet."""
    monkeypatch.setattr(parties, "_LOCAL", ())
    parties.groups_of.cache_clear()
    yield
    open_.clear()
    parties.groups_of.cache_clear()


open_: list[Stream] = []  # for as long as the test runs: a stream that nobody holds is closed


async def answered(caller: Backend, victim: Backend, count: int) -> int:
    """On how many of `count` streams, all kept open, the victim answers."""
    found = 0
    for _ in range(count):
        with suppress(CallFailed, OSError, EOFError):
            open_.append(stream := await raw_stream(caller, victim.peer_id, ECHO))
            async with asyncio.timeout(SOON):
                found += await ask(stream, b"?", LIMIT) == b">?"
    return found


def over_tcp(addresses: list[str]) -> list[str]:
    return [address for address in addresses if "/tcp/" in address]


@pytest.mark.parametrize("backend", BACKENDS)
async def test_an_internet_peer_holds_a_sixteenth_of_the_streams_and_one_of_this_machine_a_quarter(
    backend: str, internet_here: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim, caller = await started(backend), await started("hivemind")
    await caller.dial(over_tcp(await victim.addresses()), SOON)
    assert await answered(caller, victim, 40) == 16  # of 256
    monkeypatch.undo()
    parties.groups_of.cache_clear()
    local = await started("hivemind")
    await local.dial(over_tcp(await victim.addresses()), SOON)
    assert await answered(local, victim, 70) == 64


@pytest.mark.parametrize("backend", BACKENDS)
async def test_identities_at_one_address_hold_a_sixteenth_of_the_connections(
    backend: str, internet_here: None
) -> None:
    victim, crowd = await started(backend), [await started("libp2p") for _ in range(10)]
    for caller in crowd:
        await caller.dial(over_tcp(await victim.addresses()), SOON)

    async def few() -> bool:
        return len(await victim.connections()) <= SHARE

    await until_awaited(few, what="hanging up")
    late = await started("hivemind")  # a newcomer gets in, and an older connection makes room
    await late.dial(over_tcp(await victim.addresses()), SOON)
    assert await late.call(victim.peer_id, ECHO, b"me", LIMIT, SOON) == b">me"
    await until_awaited(few, what="hanging up")
    assert late.peer_id in {each.peer for each in await victim.connections()}


async def test_one_address_has_a_sixteenth_of_the_handshakes_that_are_waited_for(
    internet_here: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For py-libp2p alone: p2pd makes its handshakes in its own process, where the test cannot
    look.
    """
    monkeypatch.setattr(libp2p_backend, "HANDSHAKE_SECONDS", PATIENCE)

    victim = await started("libp2p")
    (address,) = over_tcp(await victim.addresses())
    silent = []
    for _ in range(10):
        reader, writer = await asyncio.open_connection("127.0.0.1", int(address.split("/")[4]))
        greeting = asyncio.create_task(reader.read())  # all that the victim says until it hangs up
        silent.append((greeting, writer))
    await until_awaited(
        lambda: sum(greeting.done() for greeting, _ in silent) == 6, what="hanging up"
    )
    # 4 of 64: the first six made room
    assert not any(greeting.done() for greeting, _ in silent[6:])
    honest = await started("hivemind")
    await honest.dial([address], SOON)
    assert await honest.call(victim.peer_id, ECHO, b"in", LIMIT, SOON) == b">in"
    for greeting, writer in silent:
        greeting.cancel()
        writer.close()


def started_side_by_side(places: list[Namespace]) -> list[Remote]:
    """Hosts on py-libp2p, which takes long to load."""
    with ThreadPoolExecutor() as pool:
        return list(pool.map(lambda place: Remote.start(place, "libp2p", relay=False), places))


@pytest.mark.skipif(bool(MISSING), reason=MISSING)
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_24_of_the_internet_keeps_nobody_else_out_and_a_local_network_is_no_party(
    backend: str, internet: Internet
) -> None:
    places = [internet.public(name) for name in ("victim", "near", "nearer", "far")]
    for number, place in enumerate((places[0], places[3])):  # another /24, on the same wire
        place.run("ip", "addr", "add", f"45.33.77.{number + 1}/24", "dev", "eth0")
    for number, place in enumerate(places):  # and a local network
        place.run("ip", "addr", "add", f"192.168.9.{number + 1}/24", "dev", "eth0")
    victim = Remote.start(places[0], backend, relay=False, port=31330)

    def at(host: str) -> list[str]:
        return [f"/ip4/{host}/tcp/31330/p2p/{victim.peer_id}"]

    def connected(network: str) -> int:
        return sum(address.startswith(f"/ip4/{network}.") for _, address, _ in victim.connections())

    far = Remote.start(places[3], "hivemind", relay=False)
    far.dial(at("45.33.77.1"))
    crowd = started_side_by_side(places[1:3] * 3)
    for each in crowd:
        each.dial(at(places[0].address))
    until(lambda: connected("45.33.10") <= SHARE, what="hanging up")
    assert far.echo(victim.peer_id, "there") == ">there"
    assert connected("45.33.77") == 1

    home = started_side_by_side(places[1:3] * 3)
    for each in home:
        each.dial(at("192.168.9.1"))
    assert [each.echo(victim.peer_id, "home") for each in home] == [">home"] * 6
    assert connected("192.168.9") == 6


@pytest.mark.skipif(bool(MISSING), reason=MISSING)
@pytest.mark.parametrize("backend", BACKENDS)
def test_what_a_relay_brings_is_counted_by_the_relay_which_itself_is_kept(
    backend: str, internet: Internet
) -> None:
    where = internet.public("r")
    relay = Remote.start(where, "hivemind", bootstrap=True, port=31330)
    entry = f"/ip4/{where.address}/tcp/31330/p2p/{relay.peer_id}"
    victim = Remote.start(internet.behind_nat("v"), backend, peers=[entry])

    def ways() -> list[str]:
        return [
            address for address in victim.addresses() if f"/{relay.peer_id}/p2p-circuit/" in address
        ]

    until(ways, what="a reservation")
    guests = internet.public("g")
    guests.run("ip", "addr", "add", "45.33.77.9/24", "dev", "eth0")
    crowd = started_side_by_side([guests] * 6)
    for each in crowd:
        each.dial(ways())

    def brought() -> int:
        return sum(relayed for _, _, relayed in victim.connections())

    until(lambda: brought() <= SHARE, what="hanging up")
    late = Remote.start(guests, "hivemind", relay=False)
    late.dial(ways())
    assert late.echo(victim.peer_id, "late") == ">late"
    assert relay.peer_id in {peer for peer, _, relayed in victim.connections() if not relayed}
    for each in crowd:
        try:
            each.echo(victim.peer_id, "still there?", 2.0)
        except RemoteFailed:
            continue
    until(lambda: brought() <= SHARE, what="hanging up")
