"""Nodes on one local network find each other. Here the network is the loopback interface."""

import asyncio
from collections.abc import Sequence
from uuid import uuid4

import pytest

from protocol.identity import Identity
from protocol.messages import PeerId
from swarm_node.network.process.messages import Memory
from swarm_node.network.process.service import NetworkService
from swarm_node.network.transport.lan import Lan
from tests.network.hosts import ECHO, LIMIT, SOON, config, started
from tests.waiting import until_awaited

pytestmark = pytest.mark.network
SWARM = f"lan-{uuid4().hex[:8]}"  # unique, as on loopback nodes of other tests are found too


class Ear:
    """The announcements that one node received."""

    def __init__(self) -> None:
        self.received: dict[PeerId, Sequence[str]] = {}

    def __call__(self, peer: PeerId, addresses: Sequence[str]) -> None:
        self.received[peer] = addresses

    async def finds(self, peer: PeerId) -> Sequence[str]:
        await until_awaited(lambda: peer in self.received)
        return self.received[peer]


async def test_a_node_of_each_backend_find_each_other_and_talk() -> None:
    a, b = await started("hivemind"), await started("libp2p")
    ear_a, ear_b = Ear(), Ear()
    lan_a = Lan(a.peer_id, SWARM, "127.0.0.1", ear_a)
    lan_b = Lan(b.peer_id, SWARM, "127.0.0.1", ear_b)
    await asyncio.gather(lan_a.start(await a.addresses()), lan_b.start(await b.addresses()))
    assert await a.dial(await ear_a.finds(b.peer_id), SOON) == b.peer_id
    assert await b.dial(await ear_b.finds(a.peer_id), SOON) == a.peer_id
    assert await a.call(b.peer_id, ECHO, b"neighbour", LIMIT, SOON) == b">neighbour"
    for lan in (lan_a, lan_b):
        await lan.close()


async def test_the_same_identity_twice_is_said() -> None:
    peer = Identity.create().peer_id
    first, second = Lan(peer, SWARM, "127.0.0.1", Ear()), Lan(peer, SWARM, "127.0.0.1", Ear())
    await first.start([])
    with pytest.raises(OSError, match="has this identity"):
        await second.start([])


async def test_other_swarms_and_forged_announcements_are_passed_over() -> None:
    """A good node, announced last, is the only one that is found."""
    good, other, liar = (Identity.create().peer_id for _ in range(3))

    def at(peer: PeerId, address: str = "/ip4/127.0.0.1/tcp/9") -> list[str]:
        return [f"{address}/p2p/{peer}"]

    ear = Ear()
    listener = Lan(Identity.create().peer_id, SWARM, "127.0.0.1", ear)
    speakers = {
        Lan(other, "another swarm", "127.0.0.1", Ear()): at(other),
        Lan(liar, SWARM, "127.0.0.1", Ear()): at(good),  # points at somebody else
        # And outside the network
        Lan(good, SWARM, "127.0.0.1", Ear()): at(good) + at(good, "/ip4/8.8.8.8/tcp/53"),
    }
    *first, last = speakers.items()
    await asyncio.gather(
        listener.start([]), *(speaker.start(addresses) for speaker, addresses in first)
    )
    await last[0].start(last[1])
    assert await ear.finds(good) == at(good) and set(ear.received) == {good}
    for lan in (listener, *speakers):
        await lan.close()


async def test_two_nodes_without_bootstrap_nodes_connect() -> None:
    said: list[str] = []
    lives = [
        NetworkService(
            Identity.create(),
            f"{SWARM}-neighbours",
            config(backend, mdns=True, exchange_seconds=1.0),
            Memory(),
            deliver=lambda envelope: None,
            say=lambda text, warning: said.append(text),
        )
        for backend in ("hivemind", "libp2p")
    ]
    tasks = [asyncio.create_task(life.live()) for life in lives]
    await until_awaited(lambda: all(life.runner.connections for life in lives))
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert not [text for text in said if "no discovery" in text]
