"""NAT, relays that die, partitions: hosts in network namespaces, each in a process of its own."""

import time

import pytest

from lab.benchmarks.internet.namespaces import Internet, reason
from lab.benchmarks.internet.remote import Remote, RemoteFailed
from tests.waiting import until

MISSING = reason()
pytestmark = [pytest.mark.network, pytest.mark.skipif(bool(MISSING), reason=MISSING)]


def relayed(addresses: list[str], relay: Remote) -> list[str]:
    return [address for address in addresses if f"/{relay.peer_id}/p2p-circuit/" in address]


@pytest.mark.parametrize(
    "backends", [("hivemind", "hivemind"), ("hivemind", "libp2p"), ("libp2p", "hivemind")]
)
def test_two_nodes_behind_nats_meet_at_a_relay_and_at_another_when_it_dies(
    internet: Internet, backends: tuple[str, str]
) -> None:
    publics = [internet.public(name) for name in ("r0", "r1")]
    relays = [Remote.start(where, "hivemind", bootstrap=True, port=31330) for where in publics]
    entries = [
        f"/ip4/{where.address}/tcp/31330/p2p/{it.peer_id}"
        for where, it in zip(publics, relays, strict=True)
    ]
    a = Remote.start(internet.behind_nat("a"), backends[0], peers=entries)
    # Else they need no relay
    b = Remote.start(internet.behind_nat("b", symmetric=True), backends[1], peers=entries)
    until(lambda: all(relayed(a.addresses(), relay) for relay in relays))

    direct = [
        address
        for address in a.addresses()
        if "/p2p-circuit/" not in address and "/127." not in address
    ]
    with pytest.raises(RemoteFailed, match="unreachable"):
        b.dial(direct, 1.0)
    assert b.dial(relayed(a.addresses(), relays[0])) == a.peer_id
    assert (a.peer_id, True) in {(peer, through) for peer, _, through in b.connections()}
    for _ in range(4):  # more than the 128 KiB that a relay with libp2p's defaults passes on
        assert len(b.echo(a.peer_id, "x" * 100_000)) == 100_001
    assert a.echo(b.peer_id, "and back") == ">and back"

    relays[0].process.kill()
    until(lambda: not relayed(a.addresses(), relays[0]))
    with pytest.raises(RemoteFailed):
        b.echo(a.peer_id, "lost", 2.0)
    assert (
        b.dial(relayed(a.addresses(), relays[1])) == a.peer_id
        and b.echo(a.peer_id, "found") == ">found"
    )


def test_a_public_node_asks_no_relay(internet: Internet) -> None:
    where = internet.public("r")
    relay = Remote.start(where, "hivemind", bootstrap=True, port=31330)
    entry = f"/ip4/{where.address}/tcp/31330/p2p/{relay.peer_id}"
    node = Remote.start(internet.public("a"), "hivemind", peers=[entry])
    node.dial([entry])
    assert not relayed(node.addresses(), relay) and node.addresses()[0].startswith("/ip4/45.33.10.")


@pytest.mark.parametrize("backend", ["hivemind", "libp2p"])
def test_a_partition_fails_calls_in_time_and_heals(internet: Internet, backend: str) -> None:
    places = [internet.public(name) for name in ("a", "b", "c")]
    a, b, c = (Remote.start(place, backend, relay=False) for place in places)
    address = [it for it in a.addresses() if "/tcp/" in it and "/127." not in it]
    for other in (b, c):
        other.dial(address)
        assert other.echo(a.peer_id, "whole") == ">whole"

    internet.split(*places[:2])
    assert b.echo(a.peer_id, "same side") == ">same side"
    began = time.monotonic()
    with pytest.raises(RemoteFailed, match=r"timeout|unreachable|closed"):
        c.echo(a.peer_id, "other side", 1.0)
    assert time.monotonic() - began < 15.0  # the kernel alone would try for minutes

    internet.heal(*places[:2])

    def healed() -> bool:
        try:
            c.dial(address, 10.0)
            return c.echo(a.peer_id, "again", 5.0) == ">again"
        except RemoteFailed:
            return False

    until(healed)
