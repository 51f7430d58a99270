"""Hole punching: its decisions, without a network, and hosts behind NATs that go on without their
relay.
"""

from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.benchmarks.internet.meetings import Meeting
from lab.benchmarks.internet.namespaces import Internet, reason
from lab.benchmarks.internet.remote import RemoteFailed
from protocol.identity import Identity
from protocol.wire import PUNCH, Endpoint, decode_punch, encode_punch
from swarm_node.network.transport.punching import (
    AGAIN_SECONDS,
    BURST,
    BURST_SECONDS,
    CHANGE_SECONDS,
    FRUITLESS,
    PATIENCE_SECONDS,
    PEER_SECONDS,
    PunchSchedule,
    address_of,
    endpoint_of,
    may_punch,
    our_endpoints,
)
from tests.waiting import until

MISSING = reason()
in_namespaces = pytest.mark.skipif(bool(MISSING), reason=MISSING)
PEERS = sorted(Identity.from_seed_bytes(bytes([number]) * 32).peer_id for number in range(40))
LOW, OWN, HIGH = PEERS[0], PEERS[20], PEERS[39]
RELAYED = "/ip4/45.33.10.2/tcp/31330/p2p/{0}/p2p-circuit/p2p/{1}"


def through(peer: str) -> list[str]:
    return [RELAYED.format(PEERS[1], peer)]


def test_a_peer_dialled_through_a_relay_is_asked_once_in_ten_minutes() -> None:
    plan = PunchSchedule(OWN)
    plan.dialled(LOW, ["/ip4/45.33.10.9/tcp/1/p2p/x", *through(LOW)], 0.0)
    assert plan.waits(0.0) and plan.due({LOW}, 0.0) == [(LOW, tuple(through(LOW)))]
    plan.ended(LOW)
    plan.dialled(LOW, through(LOW), 1.0)
    assert not plan.waits(AGAIN_SECONDS - 1) and plan.due({LOW}, AGAIN_SECONDS - 1) == []
    assert [peer for peer, _ in plan.due({LOW}, AGAIN_SECONDS)] == [LOW]


def test_who_is_connected_directly_or_gone_is_not_asked() -> None:
    plan = PunchSchedule(OWN)
    plan.dialled(LOW, through(LOW), 0.0)
    plan.dialled(HIGH, [address.replace("/p2p-circuit", "") for address in through(HIGH)], 0.0)
    assert plan.due({HIGH}, 0.0) == [] and not plan.waits(0.0)


def test_a_peer_that_asks_is_served_once_in_five_minutes() -> None:
    plan = PunchSchedule(OWN)
    assert (
        plan.agrees(LOW, 0.0)
        and not plan.agrees(LOW, PEER_SECONDS - 1)
        and plan.agrees(LOW, PEER_SECONDS)
    )


def test_strangers_together_are_served_so_often() -> None:
    plan = PunchSchedule(OWN)
    assert [plan.agrees(peer, 0.0) for peer in PEERS[:20]] == [True] * BURST + [False] * (
        20 - BURST
    )
    plan.dialled(HIGH, through(HIGH), 1.0)
    assert plan.due({HIGH}, 1.0) == [] and [
        peer for peer, _ in plan.due({HIGH}, BURST_SECONDS)
    ] == [HIGH]


def test_of_two_that_ask_each_other_the_higher_id_goes_on() -> None:
    plan = PunchSchedule(OWN)
    for peer in (LOW, HIGH):
        plan.dialled(peer, through(peer), 0.0)
    assert len(plan.due({LOW, HIGH}, 0.0)) == 2 and not plan.agrees(LOW, 0.1)
    assert plan.agrees(HIGH, 0.1) and not plan.agrees(HIGH, 0.2)


def test_a_nat_that_lets_nobody_in_is_left_in_peace() -> None:
    plan = PunchSchedule(OWN)
    now = 0.0
    for peer in PEERS[:FRUITLESS]:
        assert plan.agrees(peer, now)
        plan.tried(reached=False)
        now += BURST_SECONDS
    assert not plan.agrees(PEERS[10], now)
    now += PATIENCE_SECONDS
    assert plan.agrees(PEERS[10], now) and not plan.agrees(PEERS[11], now + BURST_SECONDS)
    plan.tried(reached=True)
    assert plan.agrees(PEERS[11], now + BURST_SECONDS)


def test_calls_may_fail_for_a_change_over_just_after_the_turn() -> None:
    plan = PunchSchedule(OWN)
    assert not plan.recent(LOW, 0.0)
    plan.agrees(LOW, 0.0)
    assert plan.recent(LOW, CHANGE_SECONDS - 1) and not plan.recent(LOW, CHANGE_SECONDS)


@pytest.mark.parametrize(
    ("hosts", "port", "allowed"),
    [
        ("45.33.10.2 2607:f8b0::1", 1024, True),
        ("45.33.10.2", 1023, False),
        (
            "127.0.0.1 0.0.0.0 255.255.255.255 224.0.0.251 192.168.1.1 100.64.0.1 169.254.169.254",
            31330,
            False,
        ),
        ("::1 ::ffff:127.0.0.1 fe80::1 fd00::1 ff02::fb", 31330, False),
    ],
)
def test_packets_go_to_the_internet_only(hosts: str, port: int, allowed: bool) -> None:
    for host in hosts.split():
        assert may_punch(Endpoint(ip_address(host), port)) is allowed, host


HOSTS = st.ip_addresses().filter(lambda ip: not ip.is_multicast)


@given(st.builds(Endpoint, ip=HOSTS, port=st.integers(0, 65535)))
def test_an_endpoint_is_an_address_of_quic(endpoint: Endpoint) -> None:
    assert endpoint_of(address_of(endpoint)) == endpoint


def test_what_most_witnesses_see_is_told_one_of_each_family() -> None:
    seen = [
        f"/ip4/45.33.10.{host}/udp/{port}/quic-v1"
        for host, port in ((6, 1025), (5, 4000), (5, 4000), (7, 1026))
    ]
    seen += ["/ip6/2607:f8b0::1/udp/4000/quic-v1", "/ip4/192.168.1.1/udp/4000/quic-v1"]
    assert our_endpoints(seen, []) == [
        Endpoint(ip_address(host), 4000) for host in ("45.33.10.5", "2607:f8b0::1")
    ]


def test_seen_by_tcp_the_port_is_taken_for_the_one_it_listens_on() -> None:
    listening = [
        "/ip4/127.0.0.1/udp/9999/quic-v1",
        "/ip4/192.168.1.7/tcp/4001",
        "/ip4/192.168.1.7/udp/4001/quic-v1",
    ]
    assert our_endpoints(["/ip4/45.33.10.5/tcp/50000"], listening) == [
        Endpoint(ip_address("45.33.10.5"), 4001)
    ]
    assert (
        our_endpoints(["/ip4/192.168.1.1/tcp/50000"], listening) == []
        and our_endpoints([], listening) == []
    )


@pytest.mark.network
@in_namespaces
@pytest.mark.parametrize("witness", ["udp/31330/quic-v1", "tcp/31330"])
def test_after_the_punch_nobody_needs_the_relay(internet: Internet, witness: str) -> None:
    meeting = Meeting(internet, witness=witness)

    def direct() -> bool:
        meeting.talk()  # no call is lost, relayed or direct
        return meeting.direct()

    until(direct, what="the punch")
    until(meeting.b.counters, what="the end of the attempt")
    assert meeting.b.counters() == {"punch: direct": 1}
    before = meeting.where.received()
    meeting.talk()
    assert meeting.where.received() - before < 20_000
    meeting.relay.process.kill()
    meeting.talk()


@pytest.mark.network
@in_namespaces
def test_a_nat_with_another_port_for_everybody_leaves_them_at_the_relay(internet: Internet) -> None:
    meeting = Meeting(internet, symmetric=True)

    def counted() -> bool:
        meeting.talk()
        return bool(meeting.b.counters())

    until(counted, what="the end of the attempt")
    assert meeting.b.counters() == {"punch: no way through": 1} and not meeting.direct()
    meeting.talk()


@pytest.mark.network
@in_namespaces
def test_a_lie_about_an_address_moves_a_few_packets_once(internet: Internet) -> None:
    # Its calls are those of this test alone
    meeting = Meeting(internet, witness="tcp/31330", caller="libp2p")
    victim = internet.public("v")
    victim.run("iptables", "-A", "INPUT", "-p", "udp", "-j", "DROP")

    def ask(address: str, port: int = 31330) -> list[Endpoint]:
        reply = meeting.b.call(
            meeting.a.peer_id, PUNCH, encode_punch([Endpoint(ip_address(address), port)])
        )
        found = decode_punch(reply)
        assert isinstance(found, list)
        return found

    for address in ("127.0.0.1", "192.168.1.1"):
        with pytest.raises(RemoteFailed, match="refused"):
            ask(address)
    before = victim.received()
    assert [str(each.ip) for each in ask(victim.address)] == ["45.33.10.3"]
    for _ in range(3):
        with pytest.raises(RemoteFailed, match="refused"):
            ask(victim.address)
    refused = {"punch refused: no public address": 2, "punch refused: too often": 3}
    until(lambda: meeting.a.counters() == {**refused, "punch for another: no way through": 1})
    assert 1200 < victim.received() - before < 12_000
