"""One party holds at most a sixteenth of the places: in examples by hand, and in any order of
attempts.
"""

from collections import Counter
from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm_node.network.access import parse
from swarm_node.network.parties import Connected, PartySlots, groups_of, network_of, share_of

HOME = "/ip4/192.168.1.7/tcp/4001"
RELAY = "/ip4/45.33.10.2/tcp/31330/p2p/12D3KooWRelay"
SPELLINGS = {
    "plain": "/ip4/45.33.10.7/tcp/4001",
    "another port": "/ip4/45.33.10.7/udp/9/quic-v1",
    "mapped": "/ip6/::ffff:45.33.10.7/tcp/4001",
    "compatible": "/ip6/::45.33.10.7/tcp/4001",
    "6to4": "/ip6/2002:2d21:0a07::1/tcp/4001",
    # The client's address, each bit inverted
    "Teredo": "/ip6/2001:0:4136:e378:8000:63bf:d2de:f5f8/udp/4001/quic-v1",
    "Teredo by another server": "/ip6/2001:0:102:304::d2de:f5f8/tcp/4001",
    "NAT64": "/ip6/64:ff9b::2d21:a07/tcp/4001",
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_an_address_is_one_party_however_it_is_spelt_also_for_quotas_and_lists_of_blocked_networks(
    spelling: str,
) -> None:
    assert groups_of(SPELLINGS[spelling]) == ("45.33.10.7", "45.33.10.0/24")
    assert network_of(SPELLINGS[spelling]) == "45.33.10.0/24"
    assert not parse('block_networks = ["45.33.0.0/16"]').address(SPELLINGS[spelling])


def test_a_network_of_tunnels_can_be_blocked_as_such() -> None:
    blocked = parse('block_networks = ["2002::/16"]')
    assert not blocked.address(SPELLINGS["6to4"]) and blocked.address(SPELLINGS["plain"])


@pytest.mark.parametrize(
    ("address", "groups"),
    [
        ("/ip6/2607:f8b0:1:2::3/tcp/1", ("2607:f8b0:1:2::3", "2607:f8b0:1::/48")),
        # Where its IPv4 address stands is not known
        ("/ip6/64:ff9b:1::5/tcp/1", ("64:ff9b:1::5", "64:ff9b:1::/48")),
        # Of 192.168.1.1, which is local
        ("/ip6/2002:c0a8:101::1/tcp/1", ("2002:c0a8:101::1", "2002:c0a8:101::/48")),
        ("/ip4/203.0.113.9/tcp/1", ("203.0.113.9", "203.0.113.0/24")),
        *(
            (f"/ip4/{host}/tcp/1", ())
            for host in ("192.168.1.7", "127.0.0.1", "100.64.0.9", "169.254.3.4")
        ),
        *(
            (f"/ip6/{host}/tcp/1", ())
            for host in ("::1", "fd00::9", "fe80::1%eth0", "::ffff:192.168.1.7")
        ),
        (f"{RELAY}/p2p-circuit", ("relay 12D3KooWRelay", "45.33.10.2", "45.33.10.0/24")),
        (
            f"{RELAY}/p2p-circuit/p2p/12D3KooWGuest",
            ("relay 12D3KooWRelay", "45.33.10.2", "45.33.10.0/24"),
        ),
        # A relay at home lets anybody in
        (f"{HOME}/p2p/12D3KooWRelay/p2p-circuit", ("relay 12D3KooWRelay",)),
        ("/p2p/12D3KooWRelay/p2p-circuit", ("relay 12D3KooWRelay",)),
        *(
            (odd, ("unknown",))
            for odd in ("", "/dns4/example.org/tcp/1", "/ip4/45.33.10.999/tcp/1", "nonsense")
        ),
    ],
)
def test_whom_an_address_counts_for(address: str, groups: tuple[str, ...]) -> None:
    assert groups_of(address) == groups


def test_by_hand_a_party_takes_a_sixteenth_of_the_places_and_its_neighbour_none_more() -> None:
    places = PartySlots(64, local=16)
    attacker, neighbour, other = (f"/ip4/45.33.{it}/tcp/1" for it in ("10.7", "10.8", "11.7"))
    for number in range(4):
        assert places.has_room(f"id{number}", groups_of(attacker))
        places.take(f"id{number}", groups_of(attacker))
    assert not places.has_room("id4", groups_of(attacker)) and not places.has_room(
        "id4", groups_of(neighbour)
    )
    assert not places.has_room("id4", groups_of(SPELLINGS["mapped"])) and places.has_room(
        "id4", groups_of(other)
    )
    for _ in range(15):
        places.take("at home", groups_of(HOME))
    assert places.has_room("at home", groups_of(HOME))
    places.take("at home", groups_of(HOME))
    assert not places.has_room("at home", groups_of(HOME)) and places.has_room(
        "at home too", groups_of(HOME)
    )
    places.leave("id0", groups_of(attacker))
    assert places.has_room("id4", groups_of(neighbour))


def test_by_hand_the_connection_that_was_unused_for_longest_is_closed() -> None:
    connected = Connected[str](64)  # four for a party
    crowd = [(name, f"/ip4/45.33.10.{number}/tcp/1") for number, name in enumerate("abcd")]
    far = ("far", "/ip4/99.1.1.1/tcp/1")
    assert connected.surplus([*crowd, far], 10.0) == []
    connected.used("a", 20.0)
    newer = [("e", "/ip4/45.33.10.50/tcp/1"), ("f", "/ip4/45.33.10.51/tcp/1")]
    assert connected.surplus([*crowd, far, *newer], 30.0) == ["b", "c"]
    assert connected.surplus([crowd[0], crowd[3], far, *newer], 31.0) == []


def test_by_hand_many_connections_of_one_peer_are_its_own_loss_and_not_its_neighbours() -> None:
    connected = Connected[str](64)
    neighbours = [(name, f"/ip4/45.33.10.{number}/tcp/1") for number, name in enumerate("abcd")]
    assert connected.surplus(neighbours, 10.0) == []
    greedy = [("greedy", f"/ip4/45.33.10.99/tcp/{port}") for port in range(14)]
    assert connected.surplus([*neighbours, *greedy], 20.0) == ["greedy"]


addresses = st.one_of(
    st.sampled_from([*SPELLINGS.values(), HOME, "", "/p2p-circuit", f"{RELAY}/p2p-circuit"]),
    st.builds(lambda a, b: f"/ip4/45.33.{a}.{b}/tcp/1", st.integers(9, 11), st.integers(0, 5)),
    st.builds(lambda b: f"/ip6/::ffff:45.33.10.{b}/tcp/1", st.integers(0, 5)),
    st.builds(
        lambda relay: f"/ip4/45.33.10.{relay}/tcp/1/p2p/{relay}/p2p-circuit", st.integers(0, 3)
    ),
    st.ip_addresses(v=6).map(lambda ip: f"/ip6/{ip}/tcp/1"),
)
peers = st.sampled_from([f"peer{number}" for number in range(40)])


def parties(peer: str, address: str) -> tuple[str, ...]:
    """The parties of an address on the internet, written anew and not taken from the code under
    test.
    """
    return (peer, *groups_of(address)) if groups_of(address) else ()


@given(st.integers(1, 600), st.lists(st.tuples(peers, addresses, st.booleans()), max_size=300))
def test_however_streams_come_and_go_no_party_holds_more_than_a_sixteenth(
    count: int, attempts: list[tuple[str, str, bool]]
) -> None:
    places = PartySlots(count, local=max(1, count // 4))
    held: list[tuple[str, str]] = []
    for peer, address, leaves in attempts:
        if leaves and held:
            gone, place = held.pop(0)
            places.leave(gone, groups_of(place))
        if places.has_room(peer, groups_of(address)):
            places.take(peer, groups_of(address))
            held.append((peer, address))
        most = Counter(party for it in held if groups_of(it[1]) for party in parties(*it))
        assert max(most.values(), default=0) <= max(2, count // 16)


@given(
    st.integers(1, 600),
    st.lists(st.lists(st.tuples(peers, addresses), max_size=60), max_size=6),
    st.lists(peers, max_size=10),
)
def test_however_connections_come_no_party_keeps_more_than_a_sixteenth(
    count: int, looks: list[list[tuple[str, str]]], used: list[str]
) -> None:
    connected = Connected[str](count)
    open_: list[tuple[str, str]] = []
    for now, coming in enumerate(looks):
        open_ += coming
        closing = connected.surplus(open_, float(now))
        assert len(set(closing)) == len(closing)
        # No peer that is only local
        assert {peer for peer, address in open_ if groups_of(address)} >= set(closing)
        open_ = [it for it in open_ if it[0] not in closing]
        kept = Counter(party for it in open_ for party in parties(*it))
        assert max(kept.values(), default=0) <= max(2, count // 16)
        assert connected.surplus(open_, float(now)) == []
        for peer in used:
            connected.used(peer, now + 0.5)


@given(st.ip_addresses(v=4).filter(lambda ip: groups_of(f"/ip4/{ip}/tcp/1") != ()))
def test_no_spelling_of_any_public_address_is_another_party(ip: IPv4Address) -> None:
    number = int(ip)
    spellings = [
        IPv6Address(0xFFFF << 32 | number),
        IPv6Address(0x2002 << 112 | number << 80 | 7),
        IPv6Address(0x20010000 << 96 | 0xFFFFFFFF ^ number),
        IPv6Address(int(IPv6Address("64:ff9b::")) | number),
    ]
    assert {groups_of(f"/ip6/{each}/tcp/1") for each in spellings} == {
        groups_of(f"/ip4/{ip}/tcp/1")
    }


@given(st.text())
def test_any_text_is_some_party(address: str) -> None:
    groups_of(address)


def test_a_share_is_a_sixteenth_and_two_at_least() -> None:
    assert [share_of(places) for places in (1, 16, 47, 48, 64, 256, 512)] == [2, 2, 2, 3, 4, 16, 32]
