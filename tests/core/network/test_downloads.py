"""How far a group of this node has come: who fetched it here, and who announces to have it."""

from random import Random

from protocol import codec, wire
from protocol.messages import PeerId, Round
from swarm_node.network.backend import Caller
from swarm_node.network.exchange.exchange import Exchange
from swarm_node.network.exchange.knowledge import MAX_COUNTED_GROUPS, MAX_COUNTED_PEERS, Downloads
from swarm_node.network.exchange.view import View, holding
from swarm_node.settings import NetworkConfig
from tests.exchanges import Swarm, address, announced, identity, key_of, sealed_groups
from tests.groups import SWARM

TAG = wire.swarm_tag(SWARM)


def caller(number: int) -> Caller:
    return Caller(identity(number).peer_id, address(number))


def test_downloads_here_and_announced_holdings_are_counted_once_for_each_node() -> None:
    exchange = Exchange(identity(0), SWARM, NetworkConfig(), Random(0), 0.0)
    mine, theirs = sealed_groups(identity(0), 0, 2), sealed_groups(identity(1), 0, 1)
    exchange.publish(mine, Round(0), 0, 0.0)
    first, second = (codec.to_text(key_of(envelope)) for envelope in mine)
    assert exchange.downloads() == {first: 0, second: 0}
    for number in (1, 1, 2):
        request = wire.encode_pull(TAG, [key_of(mine[0]), key_of(theirs[0])])
        assert exchange.answer(caller(number), wire.PULL, request, 1.0)
    assert exchange.downloads() == {first: 2, second: 0}
    hints = [holding(first), holding(second)]
    for number in (1, 3):
        sealed = announced(identity(number), 1, held=hints)
        request = wire.encode_exchange(wire.ExchangeRequest(TAG, 1, {}, sealed))
        exchange.answer(caller(number), wire.EXCHANGE, request, 2.0)
    assert exchange.downloads() == {first: 3, second: 2}


def test_numbers_are_of_the_newest_groups_and_bounded() -> None:
    downloads, view = Downloads(), View()
    keys = [codec.to_text(n.to_bytes(32, "big")) for n in range(MAX_COUNTED_GROUPS + 6)]
    never = keys.pop()
    for key in keys:
        downloads.published(key)
    for number in range(MAX_COUNTED_PEERS + 5):
        downloads.fetched(keys[5], PeerId(f"peer {number}"))
    downloads.fetched(keys[0], PeerId("peer"))
    downloads.fetched(never, PeerId("peer"))
    counts = downloads.counts(view)
    assert len(counts) == MAX_COUNTED_GROUPS and keys[4] not in counts
    assert counts[keys[5]] == MAX_COUNTED_PEERS and never not in counts


def test_a_swarm_in_memory_counts_what_was_fetched() -> None:
    swarm = Swarm().add_many(3)
    swarm.run(120.0)
    counts = swarm.exchanges[0].downloads()
    assert counts and max(counts.values()) == 2
