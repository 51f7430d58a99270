"""Token buckets and networks of addresses: identities, which cost nothing to make, buy no larger
share.
"""

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.messages import PeerId
from swarm_node.network.exchange.answers import MAX_TRACKED, NETWORK_PEERS, Budgets, Rate, RateLimit
from swarm_node.network.parties import NETWORK_SHARE, fair_sample, full, network_of, trim

ANN, BOB = PeerId("ann"), PeerId("bob")
KIND = "pull"


PLENTY = Rate(1e9, 1e9)


def budgets(peer: Rate, total: Rate = PLENTY) -> Budgets:
    return Budgets({KIND: RateLimit(peer, total)}, now=0.0)


@given(st.lists(st.floats(0, 5), min_size=1, max_size=60))
def test_a_peer_gets_no_more_than_burst_and_rate_allow(pauses: list[float]) -> None:
    limits, now, granted = budgets(Rate(2.0, 5.0)), 0.0, 0
    for pause in pauses:
        now += pause
        granted += limits.allow(KIND, 1, ANN, "", now)
    assert granted <= 5 + 2 * now + 1e-6


def test_a_peer_that_keeps_to_its_rate_is_never_refused() -> None:
    limits = budgets(Rate(2.0, 2.0))
    assert all(limits.allow(KIND, 1, ANN, "", now * 0.5) for now in range(100))


def test_one_peers_flood_takes_nothing_from_another() -> None:
    limits = budgets(Rate(1.0, 10.0), Rate(20.0, 100.0))
    for request in range(10_000):
        limits.allow(KIND, 1, ANN, "", request / 1000)
    assert limits.allow(KIND, 1, BOB, "", 10.0)


def test_a_network_of_a_thousand_gets_what_a_few_peers_get() -> None:
    limits = budgets(Rate(1.0, 10.0))
    granted = sum(
        limits.allow(KIND, 1, PeerId(str(number)), "20.1.2.0/24", 0.0) for number in range(1000)
    )
    assert granted == NETWORK_PEERS * 10
    assert limits.allow(KIND, 1, ANN, "20.9.9.0/24", 0.0)


def test_all_together_have_a_limit_and_a_refusal_costs_no_tokens() -> None:
    limits = budgets(Rate(1.0, 10.0), Rate(0.0, 15.0))
    for peer in (ANN, BOB):
        for _ in range(10):
            limits.allow(KIND, 1, peer, "", 0.0)
    assert not limits.allow(KIND, 1, PeerId("late"), "", 0.0)
    assert not limits.allow(KIND, 11, PeerId("late"), "", 0.0)


def test_minting_identities_does_not_grow_memory() -> None:
    limits = budgets(Rate(1.0, 1.0))
    for number in range(MAX_TRACKED + 500):
        limits.allow(KIND, 1, PeerId(str(number)), "", 0.0)
    assert len(limits._shared) == MAX_TRACKED


@pytest.mark.parametrize(
    ("addresses", "network"),
    [
        (("/ip4/20.1.2.3/tcp/1", "/ip4/20.1.2.3/tcp/1/p2p/RELAY/p2p-circuit"), "20.1.2.0/24"),
        (("/ip6/::ffff:20.1.2.3/tcp/1",), "20.1.2.0/24"),
        (("/ip6/2001:db8:1:2::3/udp/1/quic-v1",), "2001:db8:1::/48"),
        (("/dns4/a.example/tcp/1", "/dns4/b.example/tcp/1"), "dns"),
        (("/ip4/300.1.2.3/tcp/1", "/ip4", "", "nonsense"), ""),
    ],
)
def test_the_network_of_an_address(addresses: tuple[str, ...], network: str) -> None:
    assert {network_of(address) for address in addresses} == {network}


def test_a_crowd_in_one_network_is_selected_like_a_few() -> None:
    crowd = [("20.1.2.0/24", number) for number in range(1000)]
    others = [(f"20.9.{number}.0/24", number) for number in range(NETWORK_SHARE)]
    rng, drawn = Random(0), Counter[bool]()
    for _ in range(400):
        drawn[fair_sample(crowd + others, 1, lambda item: item[0], rng)[0] in crowd] += 1
    assert 0.45 < drawn[True] / 400 < 0.55


@given(st.lists(st.sampled_from("abc"), max_size=30), st.integers(-1, 40), st.integers())
def test_a_sample_holds_each_item_at_most_once(networks: list[str], count: int, seed: int) -> None:
    items = list(enumerate(networks))
    drawn = fair_sample(items, count, lambda item: item[1], Random(seed))
    assert len(set(drawn)) == len(drawn) == max(0, min(count, len(items))) and set(drawn) <= set(
        items
    )


def test_own_addresses_are_announced_short_and_dialled_in_full() -> None:
    long = "/dns4/" + "a" * 200 + "/tcp/1"
    own = trim(
        [
            "/ip4/1.2.3.4/tcp/1/p2p/ann",
            "/ip4/1.2.3.4/tcp/1",
            long,
            "/unix/x",
            "/ip6/fe80::1%eth0/tcp/1",
        ],
        ANN,
    )
    assert own == ("/ip4/1.2.3.4/tcp/1",) and full(own, ANN) == ("/ip4/1.2.3.4/tcp/1/p2p/ann",)
