"""The gate before dials to addresses that came from others: pure, with time passed in."""

import re
from collections.abc import Sequence
from ipaddress import ip_network
from itertools import pairwise
from pathlib import Path

import pytest

import protocol
from protocol.identity import Identity
from swarm_node.network.transport import gate as rules
from swarm_node.network.transport.gate import (
    CROWD_SECONDS,
    LOOKUPS,
    QUIC_BYTES,
    WINDOW_BYTES,
    WINDOW_DIALS,
    WINDOW_SECONDS,
    Dialable,
    DialDecision,
    DialGate,
)

PEER = Identity.from_seed_bytes(bytes(32)).peer_id
LAN = ["192.168.7.0/24", "127.0.0.0/8"]


def gate(
    given: Sequence[str] = (), allowed: Sequence[str] = (), own: Sequence[str] = LAN
) -> DialGate:
    return DialGate(
        Dialable(
            [f"{each}/p2p/{PEER}" for each in given],
            allowed,
            lambda: [ip_network(it) for it in own],
        )
    )


def choose(it: DialGate, *addresses: str, now: float = 0.0) -> DialDecision:
    return it.choose([f"{address}/p2p/{PEER}" for address in addresses], now)


def tcp(ip: str, port: int = 31330) -> str:
    return f"/ip{6 if ':' in ip else 4}/{ip}/tcp/{port}"


def quic(ip: str, port: int = 31330) -> str:
    return f"/ip{6 if ':' in ip else 4}/{ip}/udp/{port}/quic-v1"


def test_of_four_addresses_of_a_stranger_one_is_dialled_and_over_tcp_if_there_is_a_choice() -> None:
    it = gate()
    addresses = [quic(f"45.1.{number}.1") for number in range(3)]
    assert choose(it, *addresses).addresses == (f"{addresses[0]}/p2p/{PEER}",)
    assert choose(it, quic("46.1.1.1"), tcp("46.1.1.1")).addresses == (
        f"{tcp('46.1.1.1')}/p2p/{PEER}",
    )


@pytest.mark.parametrize(
    ("first", "second"), [("45.1.1.1", "45.1.1.200"), ("2a01:1:2::1", "2a01:1:2:ff::9")]
)
def test_a_network_is_dialled_once_in_some_minutes_whoever_says_it_is_there(
    first: str, second: str
) -> None:
    it = gate()
    it.failed(choose(it, tcp(first)), 5.0)
    assert (
        choose(it, tcp(second, 4000), now=CROWD_SECONDS).reason
        == "its network was dialled just now"
    )
    again = choose(it, tcp(second, 4000), now=CROWD_SECONDS + 5)
    assert again.addresses
    it.failed(again, CROWD_SECONDS + 10)
    # Twice in vain: twice as long
    assert not choose(it, tcp(first), now=2 * CROWD_SECONDS + 20).addresses
    assert choose(it, tcp(first), now=3 * CROWD_SECONDS + 20).addresses


def test_dials_in_vain_are_few_a_minute_and_cost_two_kilobytes_a_second_at_most() -> None:
    it, dialled = gate(), []
    for tenth in range(3000):  # a stream of identities in as many networks, for five minutes
        now = tenth / 10
        choice = choose(it, quic(f"45.{tenth // 250}.{tenth % 250}.1"), now=now)
        if choice.addresses:
            it.failed(choice, now)
            dialled.append(now)
    for begin in range(300):
        minute = [when for when in dialled if begin <= when < begin + WINDOW_SECONDS]
        assert len(minute) * QUIC_BYTES <= WINDOW_BYTES == 2000 * WINDOW_SECONDS
    assert it.counters["dials held back: too many failed attempts"] > 0
    it, free = gate(), 0
    for number in range(100):
        free += bool(choose(it, tcp(f"45.0.{number}.1")).addresses)
    assert free == WINDOW_DIALS


def test_dials_that_find_a_peer_are_not_rationed_and_open_that_address_only() -> None:
    it = gate()
    for number in range(200):
        where = tcp(f"45.0.{number}.1")
        choice = choose(it, where)
        assert choice.addresses
        it.reached(choice, [where], 1.0)
    # Both: a peer answered at that port
    assert choose(it, tcp("45.0.0.1"), quic("45.0.0.1"), now=2.0).addresses
    assert not choose(it, tcp("45.0.0.1", 5000), now=2.0).addresses
    it.failed(choose(it, tcp("45.0.0.1"), now=3.0), 8.0)
    assert not choose(it, tcp("45.0.0.1"), now=9.0).addresses  # the failed dial ended the proof


def test_who_is_connected_already_proves_no_address_that_it_names() -> None:
    it = gate()
    victim = quic("45.0.0.1")
    # The peer had called in, so nothing was dialled
    it.reached(choose(it, victim), ["/ip4/46.9.9.9/tcp/50123"], 1.0)
    assert not choose(it, victim, now=2.0).addresses


FORBIDDEN = [
    # Clouds give their keys to anybody who asks there
    *(tcp("169.254.169.254", 8080), quic("169.254.0.7")),
    *map(tcp, ("fe80::1", "fd00:ec2::254", "100.100.100.200")),
    # The same through a translator
    *map(tcp, ("64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1", "::ffff:169.254.169.254")),
    *map(tcp, ("0.0.0.0", "255.255.255.255", "127.0.0.1", "::1")),
    *map(tcp, ("10.0.0.1", "172.16.0.1", "100.64.0.1", "192.168.8.1", "fc00::1")),
    *(tcp("168.63.129.16", 32526), tcp("45.1.1.1", 80), quic("45.1.1.1", 53), quic("10.0.0.1", 53)),
    *(f"{tcp('10.0.0.1')}/p2p/{PEER}/p2p-circuit", "/dns4/metadata.internal/tcp/31330"),
]


@pytest.mark.parametrize("address", FORBIDDEN)
def test_no_stranger_leads_a_node_into_networks_that_only_it_can_see(address: str) -> None:
    it = gate()
    assert choose(it, address).addresses == () and sum(it.counters.values()) == 1


def test_metadata_addresses_are_not_dialled_even_in_an_own_subnet_or_an_allowed_range() -> None:
    it = gate(allowed=["169.254.0.0/16", "0.0.0.0/0"], own=["169.254.0.0/16", "fe80::/64"])
    assert (
        not choose(it, tcp("169.254.169.254", 8080)).addresses
        and not choose(it, tcp("fe80::1")).addresses
    )


def test_what_the_user_gave_is_dialled_whatever_it_is_and_less_often_while_nobody_answers() -> None:
    given = [tcp("169.254.1.1", 80), "/dns4/bootstrap/tcp/443", tcp("45.1.1.1", 22)]
    it = gate(given)
    for address in given:
        dialled = []
        for second in range(3600):
            choice = choose(it, address, now=float(second))
            if choice.addresses:
                it.failed(choice, float(second))
                dialled.append(second)
        # At 0, 1, 3, 7, ... and from 511 on every 300 s: the bound
        assert dialled[:9] == [0, 1, 3, 7, 15, 31, 63, 127, 255] and len(dialled) == 20
        assert {later - sooner for sooner, later in pairwise(dialled[10:])} == {300}
    assert not choose(it, tcp("45.1.1.1", 23)).addresses


def test_a_given_address_that_has_answered_is_tried_again_soon_when_it_falls_silent() -> None:
    where = tcp("45.1.1.1", 22)
    it = gate([where])
    it.failed(choose(it, where), 0.0)
    it.reached(choose(it, where, now=5.0), [where], 5.0)
    for attempt in range(30):
        now = 100.0 + 15 * attempt
        choice = choose(it, where, now=now)
        assert choice.addresses
        it.failed(choice, now)


def test_who_names_a_given_address_as_its_own_neither_passes_the_gate_nor_delays_it() -> None:
    where, other = tcp("45.1.1.1", 22), Identity.from_seed_bytes(bytes(31) + b"x").peer_id
    it = gate([where])
    assert it.choose([f"{where}/p2p/{other}"], 0.0).reason == "port below 1024"
    behind = f"{where}/p2p/{PEER}/p2p-circuit/p2p/{other}"
    for _ in range(5):  # through the relay that the user gave, whoever is not behind it
        choice = it.choose([behind], 0.0)
        assert choice.addresses == (behind,)
        it.failed(choice, 0.0)
    assert choose(it, where).addresses


SWARMS = {  # addresses given to a node, networks of its machine, and where others of its swarm are
    "loopback": ([tcp("127.0.0.1")], ["127.0.0.0/8"], "127.0.0.1"),
    "local network": ([], ["192.168.7.0/24"], "192.168.7.44"),
    "compose": (["/dns4/bootstrap/tcp/31330"], ["172.18.0.0/16"], "172.18.0.9"),
    "kubernetes": ([tcp("10.96.0.10")], ["10.244.1.7/32"], "10.244.3.9"),
    "vpn with hosts of /32": ([tcp("100.101.1.2")], ["100.90.0.1/32"], "100.77.3.4"),
    "vpn with IPv6": ([tcp("fd7a:1::2")], ["fd7a:1::9/128"], "fd7a:2::8"),
}


@pytest.mark.parametrize("swarm", SWARMS)
def test_swarms_in_private_networks_go_on_working(swarm: str) -> None:
    given, own, where = SWARMS[swarm]
    it = gate(given, own=own)
    for port in range(31330, 31340):  # nodes that share a host find each other within a minute
        now = 5.5 * (port - 31330)
        choice = choose(it, tcp(where, port), now=now)
        assert choice.addresses, (port, choice.reason)
        it.reached(choice, [tcp(where, port)], now)
    assert choose(gate(own=["10.0.0.0/24"]), tcp(where)).addresses == ()


def test_where_a_given_name_leads_its_neighbours_are_dialled_too_and_an_option_allows_more() -> (
    None
):
    it = gate(["/dns4/bootstrap.swarm.svc/tcp/31330"], own=["10.244.1.7/32"])
    assert not choose(it, tcp("10.244.3.9")).addresses
    it.reached(choose(it, "/dns4/bootstrap.swarm.svc/tcp/31330"), [tcp("10.96.0.10")], 1.0)
    assert choose(it, tcp("10.244.3.9"), now=1.0).addresses
    assert choose(gate(allowed=["10.244.0.0/16"]), tcp("10.244.3.9")).addresses


def test_a_relay_that_answers_is_not_blamed_for_who_is_not_behind_it() -> None:
    it, relay = gate(), tcp("45.1.1.1")
    behind = f"{relay}/p2p/{PEER}/p2p-circuit"
    it.reached(choose(it, relay), [relay], 0.0)
    for _ in range(5):
        choice = choose(it, behind, now=1.0)
        assert choice.addresses
        it.failed(choice, 1.0)
    assert choose(it, relay, now=2.0).addresses


def test_the_numbers_are_those_of_the_page_of_the_protocol() -> None:
    page = (Path(protocol.__file__).parent / "README.md").read_text(encoding="utf-8")
    block = page.partition("```dials\n")[2].partition("```")[0]
    named = {name: int(value) for name, value in re.findall(r"^([A-Z_]+) +(\d+)", block, re.M)}
    assert named.pop("MAX_GIVEN_SECONDS") == Dialable.longest_rest
    assert named == {name: getattr(rules, name) for name in named} and len(named) == 14


def test_names_of_others_are_looked_up_rarely() -> None:
    it = gate()
    assert [it.may_look_up(float(second)) for second in range(LOOKUPS + 2)] == [True] * LOOKUPS + [
        False
    ] * 2
    assert it.may_look_up(WINDOW_SECONDS)


def test_bytes_that_went_where_nobody_announced_count_as_well() -> None:
    it = gate()
    it.failed(choose(it, tcp("45.1.1.1")), 0.0, further=2 * WINDOW_BYTES)
    assert choose(it, tcp("46.1.1.1"), now=WINDOW_SECONDS - 1).reason == "too many failed attempts"
    assert choose(it, tcp("46.1.1.1"), now=WINDOW_SECONDS + 1).addresses


def test_what_the_gate_remembers_is_bounded() -> None:
    it = gate()
    for number in range(5_000):
        now = number * 4.0
        it.failed(
            choose(
                it, tcp(f"{45 + number // 62500}.{number // 250 % 250}.{number % 250}.1"), now=now
            ),
            now,
        )
    assert len(it._holds) <= 4096 and len(it._window) <= WINDOW_DIALS + 1
