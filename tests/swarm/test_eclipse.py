"""Eclipse attacks: hostile peers try to be the only peers that a node sees."""

from random import Random

import pytest

from lab.studies.eclipse import run
from swarm_node.network.exchange.exchange import Exchange
from swarm_node.network.exchange.peers import SLOTS, SampledPeers
from swarm_node.network.parties import network_of
from swarm_node.settings import NetworkConfig
from tests.exchanges import SWARM, Swarm, address, identity


def test_a_sample_goes_by_networks_however_loud_and_many_the_peers_in_one_are() -> None:
    shares = []
    for seed in range(20):
        sample = SampledPeers(Random(seed))
        for number in range(90):
            sample.offer(identity(number).peer_id, network_of(address(number)))
        for number in range(1000, 2000):  # of ten networks
            sample.offer(
                identity(number).peer_id, network_of(address(number, network=300 + number % 10))
            )
        hostile = {identity(number).peer_id for number in range(1000, 2000)}
        shares.append(len(sample.peers & hostile) / len(sample.peers))
    assert sum(shares) / len(shares) == pytest.approx(0.1, abs=0.06)


def test_who_is_gone_makes_room() -> None:
    sample = SampledPeers(Random(0))
    sample.offer(identity(1).peer_id, "20.0.1.0/24")
    assert sample.peers == {identity(1).peer_id}
    sample.drop(identity(1).peer_id)
    assert sample.peers == frozenset()
    for number in range(200):
        sample.offer(identity(number).peer_id, network_of(address(number)))
    assert SLOTS / 2 < len(sample.peers) <= SLOTS


def test_a_restarted_node_asks_the_peers_it_knew_before_anybody_else_can_fill_its_view() -> None:
    swarm = Swarm().add_many(12)
    swarm.run(120)
    known = {member.peer: [f"{member.address}/p2p/{member.peer}"] for member in swarm.members[1:]}
    fresh = Exchange(identity(99), SWARM, NetworkConfig(), Random(0), swarm.world.now)
    fresh.remember({**known, identity(99).peer_id: ["/ip4/30.0.0.9/tcp/1"]})
    swarm.world.join(identity(99).peer_id, fresh, "/ip4/30.0.0.9/tcp/1")
    swarm.run(60)
    assert known.keys() <= fresh.steady()
    assert known.keys() <= {entry.announcement.author for entry in fresh.view}


@pytest.mark.slow
def test_a_tenth_of_the_addresses_does_not_take_the_view_over() -> None:
    result = run(nodes=40, identities=16, together=4, minutes=3, seed=0)
    assert result["by_minute"][-1]["hostile_in_view"] < 0.5
    assert result["by_minute"][-1]["nodes_with_few_honest"] == 0
