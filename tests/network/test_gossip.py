"""The optional GossipSub layer: what one publishes, all receive, whatever their library."""

import asyncio
import os
from contextlib import suppress
from random import Random

import pytest

from protocol.identity import Identity
from protocol.messages import Round
from swarm_node.network.backend import Backend, CallFailed
from swarm_node.network.exchange.exchange import Exchange
from swarm_node.network.process.messages import Memory
from swarm_node.network.process.service import NetworkService
from tests.network.hosts import ECHO, LIMIT, SOON, config, raw_stream, started
from tests.waiting import PATIENCE, until_awaited

pytestmark = pytest.mark.network
TOPIC = "swarm-node/test"


async def member(backend: str, received: list[bytes]) -> Backend:
    host = await started(backend, gossipsub=True)
    await host.join(TOPIC, received.append)
    return host


def test_all_members_receive_a_message() -> None:
    async def scenario() -> None:
        ears: list[list[bytes]] = [[], [], [], []]
        hosts = [await member(("hivemind", "libp2p")[number % 2], ear) for number, ear in enumerate(ears)]
        for host, next_one in zip(hosts, [*hosts[1:], hosts[0]], strict=True):
            await host.dial(await next_one.addresses(), SOON)
        for number, host in enumerate(hosts):
            message = bytes([number]) + os.urandom(1500)
            others = [ear for ear in ears if ear is not ears[number]]

            async def arrived(
                host: Backend = host, message: bytes = message, others: list[list[bytes]] = others
            ) -> bool:
                await host.publish(message)  # again until the mesh has formed; what was received is received once
                return all(message in ear for ear in others)

            await until_awaited(arrived, pause=0.2)
        for host in hosts:
            await host.close()

    asyncio.run(asyncio.wait_for(scenario(), PATIENCE))


def test_who_has_it_off_says_so() -> None:
    async def scenario() -> None:
        for backend in ("hivemind", "libp2p"):
            host = await started(backend)
            with pytest.raises(CallFailed):
                await host.join(TOPIC, lambda data: None)
            await host.close()

    asyncio.run(asyncio.wait_for(scenario(), PATIENCE))


@pytest.mark.parametrize("victim_kind", ["hivemind", "libp2p"])
@pytest.mark.parametrize(
    "frame",
    [
        b"\x05\xff\xff\xff\xff\xff",  # not protobuf
        b"\xff\xff\xff\xff\x0f" + b"x" * 100,  # 4 GiB announced
        b"\x20\x12\x1e\x0a\x04\x00\x01\x02\x03\x12\x01x\x22\x0fswarm-node/test" + b"\x32\x00",  # a message of nobody
    ],
    ids=["garbage", "huge", "nobody"],
)
def test_garbage_on_the_gossip_protocol_hurts_nobody(victim_kind: str, frame: bytes) -> None:
    async def scenario() -> None:
        received: list[bytes] = []
        victim, liar = await member(victim_kind, received), await started("hivemind")
        await liar.dial([it for it in await victim.addresses() if "/tcp/" in it], SOON)
        for _ in range(3):
            with suppress(OSError):  # it is hung up on as soon as the victim has seen enough
                stream = await raw_stream(liar, victim.peer_id, "/meshsub/1.1.0")
                await stream.write(frame)
        assert await liar.call(victim.peer_id, ECHO, b"alive", LIMIT, SOON) == b">alive"
        await victim.publish(b"still here")
        assert b"x" not in received
        for host in (victim, liar):
            await host.close()

    asyncio.run(asyncio.wait_for(scenario(), PATIENCE))


def test_nodes_overhear_the_announcements_of_those_they_are_not_connected_to() -> None:
    async def scenario() -> None:
        lives = [
            NetworkService(
                Identity.create(),
                "gossips",
                config(backend, gossipsub=True, mdns=False),
                Memory(port=0, exchange={}, peers={}),
                deliver=lambda envelope: None,
                say=lambda text, warning: None,
            )
            for backend in ("hivemind", "libp2p", "hivemind")
        ]
        first, middle, last = lives
        broadcast: list[bytes] = []
        last.exchange.broadcast = lambda sealed, now: broadcast.append(sealed)  # type: ignore[method-assign]
        tasks = [asyncio.create_task(life.live()) for life in lives]
        await until_awaited(lambda: all(life.runner.addresses for life in lives))
        assert middle.runner._backend is not None
        for end in (first, last):
            await middle.runner._backend.dial(end.runner.addresses, SOON)

        def received() -> bool:
            if first.exchange.announcement() in broadcast:
                return True
            first.exchange.reachable([f"/ip4/127.0.0.1/tcp/{9 + len(broadcast)}"])  # something new to say
            return False

        await until_awaited(received, pause=0.2)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(asyncio.wait_for(scenario(), PATIENCE))


def test_what_is_broadcast_goes_through_the_ordinary_checks_and_is_rationed() -> None:
    def exchange(swarm: str) -> Exchange:
        return Exchange(Identity.create(), swarm, config("hivemind"), Random(1), 0.0)

    node, neighbour, stranger = exchange("ours"), exchange("ours"), exchange("theirs")
    for other in (neighbour, stranger):
        other.publish([], Round(1), 0, 1.0)
        node.broadcast(other.announcement(), 1.0)
    node.broadcast(neighbour.announcement()[:-1] + b"?", 1.0)
    assert [view.announced for view in node.peers(2.0)] == [1.0]
    assert node.counters()["announcements received"] == 1
    assert node.counters()["announcements forged or malformed"] == 2
    for _ in range(1000):
        node.broadcast(b"flood", 3.0)
    assert node.counters()["announcements broadcast and left: too many"] > 800
