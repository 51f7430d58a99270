"""Lists of whom and what to block, and the file they come from."""

import os
from pathlib import Path
from random import Random

import pytest

from protocol import wire
from protocol.messages import Round
from swarm_node.network.access import Access, parse
from swarm_node.network.backend import Caller
from swarm_node.network.exchange.exchange import Exchange
from swarm_node.network.process.keeper import Keeper
from swarm_node.network.process.messages import Memory
from swarm_node.settings import NetworkConfig
from tests.exchanges import SWARM, Swarm, address, announced, identity, key_of, sealed_groups
from tests.groups import KIND

TAG = wire.swarm_tag(SWARM)


def node() -> Exchange:
    return Exchange(identity(0), SWARM, NetworkConfig(), Random(0), 0.0)


def tell(exchange: Exchange, number: int, now: float) -> bytes:
    request = wire.ExchangeRequest(TAG, 24, {}, announced(identity(number), int(now)))
    caller = Caller(identity(number).peer_id, address(number))
    return exchange.answer(caller, wire.EXCHANGE, wire.encode_exchange(request), now)


def test_what_is_blocked_is_blocked_and_an_allow_list_blocks_all_others() -> None:
    one, other = identity(1).peer_id, identity(2).peer_id
    blocking = parse(f'block_peers = ["{one}"]\nblock_networks = ["45.1.0.0/16", "2a01::/32"]')
    assert (blocking.peer(one), blocking.peer(other)) == (False, True)
    for where, passes in (("45.1.9.9", False), ("45.2.0.1", True)):
        assert blocking.address(f"/ip4/{where}/tcp/1") is passes
        assert blocking.address(f"/ip4/{where}/tcp/1/p2p/{one}/p2p-circuit") is passes
        assert blocking.address(f"/ip6/::ffff:{where}/tcp/1") is passes
    assert not blocking.address("/ip6/2a01::1/tcp/1")
    allowing = parse(
        f'allow_peers = ["{one}"]\nallow_networks = ["45.1.0.0/16"]\nblock_networks = '
        '["45.1.7.0/24"]'
    )
    assert (allowing.peer(one), allowing.peer(other)) == (True, False)
    assert [allowing.address(f"/ip4/{ip}/tcp/1") for ip in ("45.1.1.1", "45.1.7.1", "9.9.9.9")] == [
        True,
        False,
        False,
    ]


@pytest.mark.parametrize(
    "text",
    [
        "block_peers = 1", "block_peers = [1]", "blocks = []", "block_networks = ['x']", "[",
        "allow_networks = ['1.1.1.1/8']",
    ],
)  # fmt: skip
def test_a_mistake_in_the_lists_is_one_line(text: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse(text)
    assert "\n" not in str(caught.value)


def test_a_blocked_peer_is_refused_forgotten_and_shown_and_let_in_when_it_is_blocked_no_more() -> (
    None
):
    exchange = node()
    assert tell(exchange, 5, 1.0) and len(exchange.view) == 1
    exchange.allow(Access(block_peers=frozenset([identity(5).peer_id])))
    assert len(exchange.view) == 0 and tell(exchange, 5, 30.0) == b""
    assert exchange.counters()["refused: blocked"] == 1
    assert [view.state for view in exchange.peers(30.0)] == ["blocked"]
    assert not exchange.tick(40.0)  # nobody left to call
    exchange.allow(Access())
    assert tell(exchange, 5, 60.0)


def test_a_blocked_network_is_refused_and_what_is_said_to_be_there_left() -> None:
    exchange = node()
    exchange.allow(parse('block_networks = ["20.5.7.0/24"]'))  # the network of node 5
    assert tell(exchange, 5, 1.0) == b"" and tell(exchange, 6, 1.0)


def test_groups_of_a_blocked_task_are_left_and_nobody_is_charged() -> None:
    swarm = Swarm(every=5.0).add_many(3)
    swarm.exchanges[0].allow(
        Access(block_tasks=frozenset([f"{KIND['dataset']}/{KIND['config_id']}"]))
    )
    swarm.run(60)
    assert swarm.pulled(swarm.members[0]) == [] and swarm.pulled(swarm.members[1])
    assert swarm.exchanges[0].counters()["groups left: task blocked"] > 0
    assert all(view.guilt == 0 for view in swarm.exchanges[0].peers(60.0))


def test_who_took_and_who_gave_is_counted_and_why_somebody_was_charged() -> None:
    swarm = Swarm(every=1e9)
    giver, taker = swarm.add(want=0, groups=0), swarm.add(want=0, groups=0)
    exchange = swarm.exchanges[0]
    groups = sealed_groups(identity(0), 0, 2)
    swarm.world.perform(giver, exchange.publish(groups, Round(0), 0, 0.0))
    swarm.run(2)
    swarm.world.perform(taker, swarm.exchanges[1].want(2, swarm.world.now))
    swarm.run(10)
    swarm.world.perform(taker, swarm.exchanges[1].publish([], Round(0), 2, swarm.world.now))
    swarm.run(20)
    (seen,) = [view for view in exchange.peers(swarm.world.now) if view.peer == taker.peer]
    (made,) = [
        view for view in swarm.exchanges[1].peers(swarm.world.now) if view.peer == giver.peer
    ]
    assert seen.served == made.authored == len(swarm.pulled(taker)) > 0
    assert (seen.authored, made.served) == (0, 0)  # the taker gives nothing
    exchange.verdict(taker.peer, key_of(groups[0]), "scorer timed out", swarm.world.now)
    (seen,) = [view for view in exchange.peers(swarm.world.now) if view.peer == taker.peer]
    assert seen.faults == {"scorer timed out": 1}


def test_the_file_is_read_again_when_it_changes_and_a_mistake_in_it_changes_nothing(
    tmp_path: Path,
) -> None:
    said: list[str] = []
    found: list[Access] = []
    keeper = Keeper(
        tmp_path,
        "here",
        Memory,
        found.append,
        print,
        lambda text, _: said.append(text),
        lambda: 0.0,
    )
    path = tmp_path / "access.toml"
    keeper.look()
    assert said == []
    path.write_text('block_tasks = ["gcd/easy"]')
    for _ in range(2):
        keeper.look()
    assert said == ["network: access.toml was read"]
    path.write_text('block_tasks = ["gcd/easy')
    os.utime(path, ns=(1, 1))
    for _ in range(2):
        keeper.look()
    assert len(said) == 2 and said[1].endswith("what it said before still counts")
    assert [access.block_tasks for access in found] == [{"gcd/easy"}]
    path.unlink()
    keeper.look()
    assert said[2:] == ["network: access.toml was removed: nobody is blocked"]
    assert found[1:] == [Access()]


@pytest.mark.parametrize("range_", ["0.0.0.0/0", "8.8.8.0/24", "::/0", "10.0.0.0/7"])
def test_a_public_network_is_not_private_because_a_file_says_so(range_: str) -> None:
    with pytest.raises(ValueError, match="is not a private network"):
        parse(f'private_networks = ["192.168.0.0/16", "{range_}"]')


@pytest.mark.parametrize("text", ["a = " + "[" * 100_000, "a." * 100_000 + "b = 1"])
def test_a_list_that_nobody_can_parse_is_a_mistake_in_a_line(text: str) -> None:
    with pytest.raises(ValueError) as error:
        parse(text)
    assert len(str(error.value).splitlines()) == 1
