"""Addresses: the subset of multiaddr that the node dials, checked against the library that
py-libp2p uses.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.identity import Identity
from swarm_node.network.transport.multiaddr import from_bytes, split_peer, to_bytes, usefulness

ANN = Identity.from_seed_bytes(b"a" * 32).peer_id
BEN = Identity.from_seed_bytes(b"b" * 32).peer_id
GOOD = [
    "/ip4/1.2.3.4/tcp/31330", f"/ip4/1.2.3.4/tcp/31330/p2p/{ANN}",
    f"/ip4/1.2.3.4/udp/65535/quic-v1/p2p/{ANN}", f"/ip6/2001:db8::1/tcp/1/p2p/{ANN}",
    f"/dns4/node.example.org/tcp/31330/p2p/{ANN}", f"/dns/a-b.example/udp/1/quic-v1/p2p/{ANN}",
    f"/ip4/1.2.3.4/tcp/4001/p2p/{BEN}/p2p-circuit/p2p/{ANN}",
]  # fmt: skip
BAD = [
    *(
        "",
        "/",
        "ip4/1.2.3.4/tcp/1",
        "/ip4",
        "/ip4/1.2.3.4/tcp",
        "/ip4/1.2.3/tcp/1",
        "/ip4/01.2.3.4/tcp/1",
    ),
    *(f"/ip4/1.2.3.4/tcp/{port}" for port in ("65536", "-1", "١", "1/")),
    *(
        "/ip6/fe80::1%eth0/tcp/1",
        "/ip4/224.0.0.251/udp/5353/quic-v1",
        "/ip6/ff02::fb/udp/5353/quic-v1",
    ),
    *("/ip4/1.2.3.4/tcp/1/p2p/Qm", f"/ip4/1.2.3.4/tcp/1/p2p/{ANN[:-1]}O", "/unix/tmp/socket"),
    *(
        "/dns4/a,b/tcp/1",
        "/dns4/-listen=x y/tcp/1",
        "/dns4/" + "a" * 200 + "/tcp/1",
        "/ip4/1.2.3.4/tcp/1" * 40,
    ),
]


@pytest.mark.parametrize("text", GOOD)
def test_text_and_bytes_are_those_of_the_library(text: str) -> None:
    multiaddr = pytest.importorskip("multiaddr")
    assert (
        to_bytes(text) == multiaddr.Multiaddr(text).to_bytes()
        and from_bytes(to_bytes(text)) == text
    )


@pytest.mark.parametrize("text", BAD)
def test_anything_else_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(ValueError, match=r"^.{1,400}$"):
        to_bytes(text)


def test_bytes_that_name_a_group_of_hosts_are_refused() -> None:
    with pytest.raises(ValueError, match="multicast"):
        from_bytes(bytes([4, 224, 0, 0, 251]))


@given(st.binary(max_size=64))
def test_bytes_of_a_peer_are_an_address_or_a_value_error(data: bytes) -> None:
    try:
        text = from_bytes(data)
    except ValueError:
        return
    if text:
        to_bytes(text)


def test_the_last_peer_of_a_relayed_address_is_the_one_meant() -> None:
    assert split_peer(GOOD[-1]) == (f"/ip4/1.2.3.4/tcp/4001/p2p/{BEN}/p2p-circuit", ANN)
    with pytest.raises(ValueError, match="names no peer"):
        split_peer(GOOD[0])


def test_what_others_can_reach_comes_first() -> None:
    ordered = ["/ip4/8.8.8.8/tcp/1", f"/ip4/8.8.8.8/tcp/1/p2p/{BEN}/p2p-circuit"]
    ordered += ["/ip4/192.168.1.5/tcp/1", "/ip4/127.0.0.1/tcp/1"]
    assert sorted(reversed(ordered), key=usefulness) == ordered
