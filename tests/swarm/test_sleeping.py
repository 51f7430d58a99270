"""Nodes that sleep, in a simulated swarm of real exchanges: their clock jumps by a minute to eight
hours, with calls under way.
"""

import pytest

from protocol import limits, wire
from protocol.messages import PeerId
from swarm_node.network.actions import CallPeer, StartOver
from swarm_node.network.backend import Caller, Failure
from swarm_node.network.exchange.exchange import SLEPT_SECONDS, WOKE, Exchange
from swarm_node.network.exchange.view import MAX_AGE
from tests.dreams import JUMPS
from tests.exchanges import SWARM, Swarm, identity

NODES, SLEEPER = 8, 5
SIMULATED = 200.0  # seconds of a longer sleep that the others live through: more than MAX_AGE
SOON = 10.0  # seconds in which a node is to be back


def slept(seconds: float, *sleepers: int) -> tuple[Swarm, float]:
    """A swarm in which these nodes have slept, and when they woke."""
    swarm, simulated = Swarm().add_many(NODES), min(seconds, SIMULATED)
    swarm.run(60.0)
    for number in sleepers:
        swarm.world.sleep(swarm.members[number].peer, simulated, seconds - simulated)
    swarm.run(simulated)
    return swarm, swarm.world.now


@pytest.mark.parametrize("seconds", JUMPS)
def test_a_node_that_slept_is_back_within_ten_seconds(seconds: float) -> None:
    swarm, woke = slept(seconds, SLEEPER)
    before = newest_round(swarm)
    swarm.run(SOON)
    sleeper = swarm.members[SLEEPER]
    fresh = [group for group in swarm.pulled(sleeper, woke) if group.round >= before - 1]
    assert len({group.author for group in fresh}) >= 3
    name = sleeper.peer
    told = [number for number, each in enumerate(swarm.exchanges) if is_known(each, name, swarm)]
    assert len(told) >= 2
    assert swarm.exchanges[SLEEPER].counters()[WOKE] == 1


def newest_round(swarm: Swarm) -> int:
    return max(entry.announcement.round for each in swarm.exchanges for entry in each.view)


def is_known(exchange: Exchange, peer: PeerId, swarm: Swarm) -> bool:
    """Whether the exchange has an announcement that the peer made in the last ten seconds."""
    entry = exchange.view.get(peer)
    return entry is not None and swarm.world.now - entry.made <= SOON


@pytest.mark.parametrize("seconds", JUMPS)
def test_nobody_is_blamed_for_a_call_that_lasted_as_long_as_a_sleep(seconds: float) -> None:
    swarm = Swarm().add_many(NODES)
    swarm.run(60.0)
    exchange, world = swarm.exchanges[SLEEPER], swarm.world
    sampled = exchange._knowledge.sample.peers
    calls = [each for each in exchange.tick(world.now + 1.0) if isinstance(each, CallPeer)]
    calls += exchange._gossip._spread(4, world.now + 1.0)
    assert len(calls) >= 4
    counted = dict(exchange.counters())
    now = world.now + 1.0 + seconds
    said = [exchange.failed(call.token, Failure.TIMEOUT, now) for call in calls]
    assert said[0] == [StartOver()] and not any(said[1:])
    failed = {name: count for name, count in exchange.counters().items() if "failed" in name}
    assert failed == {name: count for name, count in counted.items() if "failed" in name}
    contacts = list(exchange._knowledge.contacts)
    assert all(each.failures == 0 and each.retry < now for each in contacts)
    assert exchange._knowledge.sample.peers == sampled
    assert all(view.success == 1.0 and view.state == "ok" for view in exchange.peers(now))


@pytest.mark.parametrize("seconds", JUMPS)
def test_after_a_sleep_no_announcement_is_passed_on_that_is_too_old(seconds: float) -> None:
    """Asked before its first tick, too: then the dead address of a peer that died meanwhile."""
    swarm, woke = slept(seconds, SLEEPER)
    sleeper, now = swarm.exchanges[SLEEPER], woke + swarm.members[SLEEPER].ahead
    asker = identity(999).peer_id
    request = wire.ExchangeRequest(wire.swarm_tag(SWARM), limits.MAX_EXCHANGED, {}, b"")
    caller = Caller(asker, "/ip4/8.8.8.8/tcp/4001")
    reply = sleeper.answer(caller, wire.EXCHANGE, wire.encode_exchange(request), now)
    items = wire.decode_items(reply)
    assert isinstance(items, list)
    assert all(item.age / 10 <= MAX_AGE for item in items)
    assert all(now - entry.made <= MAX_AGE for entry in sleeper.view)


def test_a_node_that_was_only_slow_starts_nothing_over() -> None:
    swarm = Swarm().add_many(NODES)
    swarm.run(60.0)
    exchange = swarm.exchanges[SLEEPER]
    exchange.tick(swarm.world.now + 1.0)
    late = swarm.world.now + SLEPT_SECONDS
    assert StartOver() not in exchange.tick(late)
    assert WOKE not in exchange.counters()


@pytest.mark.parametrize("seconds", JUMPS)
def test_a_swarm_that_sleeps_as_a_whole_meets_again(seconds: float) -> None:
    """As the nodes of one machine do."""
    swarm, woke = slept(seconds, *range(NODES))
    swarm.run(2 * SOON)
    assert all(swarm.pulled(member, woke) for member in swarm.members)


def test_a_node_names_no_address_until_it_knows_where_it_woke() -> None:
    swarm = Swarm().add_many(3)
    swarm.run(60.0)
    exchange, now = swarm.exchanges[0], swarm.world.now + 600.0
    assert exchange.woke(now) == [StartOver()]
    exchange.tick(now)
    local = exchange._knowledge.local_announcement
    assert local._addresses == () and not local.outdated
    peer = swarm.members[0].peer
    exchange.reachable([f"/ip4/8.8.4.4/tcp/4001/p2p/{peer}"])
    exchange.tick(now + 0.5)
    assert local._addresses == ("/ip4/8.8.4.4/tcp/4001",) and not local.outdated
