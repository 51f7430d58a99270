"""Nodes that exchange over an event queue: real state machines and bytes, simulated network."""

from collections import Counter
from random import Random

import msgspec
import pytest

from lab.studies.simulated_exchange import SimulatedPeer
from protocol.limits import HASH_BYTES, SWARM_TAG_BYTES
from protocol.messages import Round
from swarm_node.network.actions import CallPeer, Remembered
from swarm_node.network.exchange.exchange import Exchange
from swarm_node.network.exchange.view import MAX_AGE
from swarm_node.settings import NetworkConfig
from tests.exchanges import SWARM, Swarm, identity, sealed_groups


def total(swarm: Swarm) -> Counter[str]:
    return sum((Counter(exchange.counters()) for exchange in swarm.exchanges), Counter())


def newcomer(swarm: Swarm) -> tuple[SimulatedPeer, Exchange]:
    """A node that knows nobody yet and publishes nothing by itself."""
    exchange = Exchange(identity(99), SWARM, NetworkConfig(), Random(0), swarm.world.now)
    return swarm.world.join(identity(99).peer_id, exchange, "/ip4/30.0.0.1/tcp/1"), exchange


@pytest.mark.slow
@pytest.mark.parametrize("nodes", [8, 64])
def test_every_node_gets_what_it_wants_and_everybody_is_received(nodes: int) -> None:
    swarm = Swarm(loss=0.05).add_many(nodes)
    swarm.run(30)
    start, rounds = swarm.world.now, 4
    swarm.run(rounds * 10)
    for member in swarm.members:
        groups = swarm.pulled(member, start)
        assert len(groups) >= 2 * rounds
        assert len({(group.author, group.question) for group in groups}) == len(groups)
        assert member.peer not in {group.author for group in groups}
    received = Counter(
        group.author for member in swarm.members for group in swarm.pulled(member, start)
    )
    assert set(received) == {member.peer for member in swarm.members}
    assert sum(received.values()) >= 0.9 * 4 * rounds * nodes
    assert max(received.values()) <= 4 * sum(received.values()) / nodes


@pytest.mark.parametrize(("want", "share"), [(2, 1), (3, 1), (4, 2), (50, 8)])
def test_no_origin_fills_more_than_its_even_share_of_a_round(want: int, share: int) -> None:
    swarm = Swarm()
    member, exchange = swarm.add(want=0, groups=0), swarm.exchanges[0]
    swarm.add_many(3)
    swarm.run(5)
    for _ in range(5):
        start = swarm.world.now
        swarm.world.perform(member, exchange.publish([], Round(1), want, swarm.world.now))
        swarm.run(4)
        by_origin = Counter(group.author for group in swarm.pulled(member, start))
        assert max(by_origin.values(), default=0) <= share
    assert swarm.pulled(member)


@pytest.mark.parametrize(
    ("rounds", "want", "each"), [(3, 4, 2), (2, 3, 2), (1, 12, 6), (1, 4, 2), (1, 2, 1)]
)
def test_what_two_origins_have_comes_in_one_call_each(rounds: int, want: int, each: int) -> None:
    swarm = Swarm(every=1e9).add_many(3, want=0, groups=0)
    reader, *writers = swarm.members
    swarm.run(20)
    for number, writer in enumerate(writers, 1):
        groups = sealed_groups(identity(number), 0, 6)
        swarm.world.perform(
            writer, swarm.exchanges[number].publish(groups, Round(0), 0, swarm.world.now)
        )
    swarm.run(20)
    start, sent = swarm.world.now, swarm.exchanges[0].counters().get("pull bytes out", 0)
    swarm.world.perform(reader, swarm.exchanges[0].publish([], Round(1), want, start, rounds))
    swarm.run(20)
    by_origin = Counter(group.author for group in swarm.pulled(reader, start))
    assert set(by_origin) == {writer.peer for writer in writers} and max(by_origin.values()) == each
    assert sum(by_origin.values()) == want
    asked = swarm.exchanges[0].counters()["pull bytes out"] - sent
    assert asked == 2 * SWARM_TAG_BYTES + want * HASH_BYTES  # two calls


def test_a_lone_peer_supplies_all_that_a_round_wants() -> None:
    swarm = Swarm().add_many(2)
    start, rounds = swarm.world.now, 6
    swarm.run(rounds * 10)
    assert len(swarm.pulled(swarm.members[0], start)) >= 4 * (rounds - 2)


@pytest.mark.slow
def test_traffic_does_not_grow_with_the_swarm() -> None:
    exchanged = []
    for nodes in (16, 64):
        swarm = Swarm().add_many(nodes)
        swarm.run(20)
        before = total(swarm)
        swarm.run(50)
        spent = total(swarm) - before
        exchanged.append((spent["exchange bytes in"] + spent["exchange bytes out"]) / nodes / 5)
    assert exchanged[1] <= 1.2 * exchanged[0]
    assert exchanged[1] < 60_000  # a round: 16 announcements either way


def test_groups_outlive_their_author_also_where_no_holder_has_all_of_them() -> None:
    swarm = Swarm(seed=1).add_many(4, want=0, groups=0)  # nobody publishes by itself
    author, *holders, late = swarm.members
    groups = sealed_groups(identity(0), 0, 2)
    swarm.run(5)
    swarm.world.perform(author, swarm.exchanges[0].publish(groups, Round(0), 0, swarm.world.now))
    swarm.run(20)
    # Each fetches one group, and then announces what it holds
    for number, want in ((1, 1), (2, 1), (1, 0), (2, 0)):
        swarm.world.perform(
            swarm.members[number],
            swarm.exchanges[number].publish([], Round(0), want, swarm.world.now),
        )
        swarm.run(5)
    held = {(d.content_hash, each.peer) for each in holders for _, d in each.delivered}
    swarm.world.kill(author.peer)
    swarm.run(20)
    swarm.world.perform(late, swarm.exchanges[3].publish([], Round(0), 6, swarm.world.now))
    swarm.run(30)
    assert {(d.content_hash, d.source) for _, d in late.delivered} == held and len(dict(held)) == 2


@pytest.mark.slow
def test_quick_rounds_fetch_on_while_calls_to_the_dead_hang() -> None:
    swarm = Swarm(every=1.5).add_many(10)

    def received(seconds: float) -> float:
        """Groups that a living node receives a second."""
        start = swarm.world.now
        swarm.run(seconds)
        return sum(len(swarm.pulled(member, start)) for member in swarm.members[:7]) / seconds / 7

    swarm.run(20)
    before = received(20)
    for peer in swarm.ids(7):
        swarm.world.kill(peer)
    assert received(30) >= 0.5 * before


@pytest.mark.slow
def test_a_popular_group_does_not_load_its_author_alone() -> None:
    # Only one node publishes
    swarm = Swarm().add_many(1, want=1, groups=1).add_many(23, want=1, groups=0)
    swarm.run(120)
    counters = total(swarm)
    assert counters["groups pulled from a holder"] >= 0.2 * counters["groups pulled"]


@pytest.mark.slow
@pytest.mark.parametrize("split", [1, 8])
def test_after_a_partition_both_sides_exchange_again_within_30_seconds(split: int) -> None:
    swarm = Swarm().add_many(16)
    swarm.run(40)
    one, other = set(swarm.ids(0, split)), set(swarm.ids(split))
    swarm.world.part(one, other)
    swarm.run(2 * MAX_AGE)  # long enough to forget each other's announcements
    start = swarm.world.now
    swarm.world.part()
    swarm.run(30)
    assert other & {group.author for group in swarm.pulled(swarm.members[0], start)}
    assert any(
        one & {group.author for group in swarm.pulled(member, start)}
        for member in swarm.members[split:]
    )


def test_a_node_with_two_dead_bootstrap_nodes_before_a_live_one_has_groups_at_once() -> None:
    """A node takes seconds to load its model, and wants external groups when it has."""
    swarm = Swarm().add_many(3)
    swarm.run(20)
    member, node = newcomer(swarm)
    for number in (500, 501):
        node.learned(identity(number).peer_id, ["/ip4/30.0.0.9/tcp/1"])
    first = swarm.members[0]
    node.learned(first.peer, [f"{first.address}/p2p/{first.peer}"])
    swarm.world.perform(member, node.want(2, swarm.world.now))
    swarm.run(2)
    assert len(node.view) >= 1 and member.alive
    swarm.run(3)
    assert len(swarm.pulled(member)) == 2


def test_a_restarted_node_goes_on_and_takes_nothing_twice() -> None:
    swarm = Swarm().add_many(3)
    swarm.run(60)
    member, before = swarm.members[2], swarm.exchanges[2]
    swarm.exchanges[2] = after = Exchange(identity(2), SWARM, NetworkConfig(), Random(1), 0.0)
    after.restore(before.state(), swarm.world.now)
    seen = {delivery.content_hash for _, delivery in member.delivered}
    member.alive = False  # the node before its restart
    renewed = swarm.world.join(member.peer, after, member.address)
    swarm.members[2] = renewed
    after.learned(swarm.members[0].peer, [swarm.members[0].address])
    for round in range(50, 53):
        swarm.world.perform(
            renewed, after.publish(sealed_groups(identity(2), round), Round(50), 4, swarm.world.now)
        )
        swarm.run(10)
    assert renewed.delivered and not seen & {
        delivery.content_hash for _, delivery in renewed.delivered
    }
    assert after.state().seq > before.state().seq
    newest = swarm.exchanges[0].view.get(member.peer)
    assert newest and newest.announcement.round == 50


def test_a_node_that_lost_its_memory_is_received_again() -> None:
    swarm = Swarm().add_many(3)
    swarm.run(60)
    fresh = Exchange(identity(2), SWARM, NetworkConfig(), Random(1), swarm.world.now)
    swarm.members[2].alive = False
    renewed = swarm.world.join(swarm.members[2].peer, fresh, swarm.members[2].address)
    fresh.learned(swarm.members[0].peer, [swarm.members[0].address])
    for _ in range(3):
        swarm.world.perform(
            renewed, fresh.publish(sealed_groups(identity(2), 50), Round(50), 4, swarm.world.now)
        )
        swarm.run(10)
    newest = swarm.exchanges[0].view.get(renewed.peer)
    assert newest and newest.announcement.round == 50
    assert any("two nodes with one identity" in name for name in fresh.counters())


@pytest.mark.parametrize(
    "spoil", [{"seq": -1}, {"seen": ["x"]}, {"bans": 3}, {"more": 1}, {"received": {"a": [1]}}]
)
def test_a_spoilt_memory_is_an_error_of_one_line(spoil: dict[str, object]) -> None:
    state = Exchange(identity(0), SWARM, NetworkConfig(), Random(0), 0.0).state()
    with pytest.raises(ValueError, match=next(iter(spoil))) as caught:
        msgspec.convert({**msgspec.to_builtins(state), **spoil}, Remembered)
    assert "\n" not in str(caught.value)


def test_a_driver_that_never_answers_blocks_nothing() -> None:
    node = Exchange(identity(0), SWARM, NetworkConfig(), Random(0), 0.0)
    for number in range(1, 10):
        node.learned(identity(number).peer_id, ["/ip4/1.2.3.4/tcp/1"])
    calls = [
        action
        for second in range(200)
        for action in node.tick(float(second))
        if isinstance(action, CallPeer)
    ]
    assert {call.peer for call in calls} == {identity(number).peer_id for number in range(1, 10)}
    assert len(calls) > 20
    assert node.replied(calls[0].token, b"\0", 200.0) == []  # much too late


def test_a_serving_node_names_others_and_fetches_nothing() -> None:
    swarm = Swarm()
    entry = Exchange(identity(0), SWARM, NetworkConfig(), Random(0), 0.0, serve_only=True)
    swarm.members.append(swarm.world.join(identity(0).peer_id, entry, "/ip4/30.0.0.1/tcp/1"))
    swarm.exchanges.append(entry)
    swarm.add_many(6)
    swarm.run(60)
    assert (
        all(len(exchange.view) == 6 for exchange in swarm.exchanges)
        and not swarm.members[0].delivered
    )
    assert all(len(swarm.pulled(member)) >= 12 for member in swarm.members[1:])
