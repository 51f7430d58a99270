"""Would a DHT find a swarm for newcomers better than gossip does? p2pd's Kademlia beside the exchange of announcements.

    unshare --net sh -c 'ip link set lo up; python -m lab.studies.providers --json'     # as root

Each node has a p2pd in a /24 of its own. With the DHT it provides the network id, and a newcomer that knows any one
node asks for providers; by gossip, it is the network of a node. Hostile nodes have identities nearest to the key of the
network id. They answer every question with each other, and with three times as many ghosts at a victim's address.
"""

import asyncio
import hashlib
import math
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from random import Random
from statistics import fmean, median
from typing import Any

import psutil

from lab.benchmarks import command
from lab.studies.attackers import PORTS, Victim
from protocol import codec, wire
from protocol.identity import Identity
from protocol.messages import Announcement, PeerId, Round
from swarm_node.network import varint
from swarm_node.network.backend import Caller
from swarm_node.network.process.messages import Memory
from swarm_node.network.process.service import NetworkService
from swarm_node.network.transport import p2pd
from swarm_node.network.transport.backends import HostOptions
from swarm_node.network.transport.multiaddr import peer_bytes, peer_text, to_bytes
from swarm_node.settings import NetworkConfig

SWARM, KAD, VICTIM, PORT = "benchmark", "/ipfs/kad/1.0.0", "127.200.0.1", 31330
ENOUGH, SECONDS, GHOSTS, LIMIT = 8, 15.0, 3, 1 << 20
KEY = b"\x12\x20" + hashlib.sha256(SWARM.encode()).digest()  # the multihash of the CID
PLAIN = p2pd._flags


@dataclass
class Host:
    identity: Identity
    address: str  # without the identity

    @property
    def full(self) -> str:
        return f"{self.address}/p2p/{self.identity.peer_id}"


@dataclass
class Node:
    """What is measured of either kind."""

    provide: Callable[[], Awaitable[Any]]
    names: Callable[[], Awaitable[set[PeerId]]]  # whom it finds
    stop: Callable[[], Awaitable[Any]]


Start = Callable[[Host, list[Host], list[Host]], Awaitable[Node]]  # own, whom it knows, friends of a hostile one


async def by_dht(own: Host, entry: list[Host], friends: list[Host]) -> Node:
    """A p2pd that does nothing but the DHT. Hostile ones speak its protocol themselves."""
    p2pd._flags = PLAIN if friends else lambda options: [*PLAIN(options), "-dhtServer=1"]
    daemon, pb = await p2pd.Daemon.start(HostOptions(NetworkConfig(), own.identity, [own.address])), p2pd.pb()
    said = [part(1, peer_bytes(it.identity.peer_id)) + part(2, to_bytes(it.address)) + b"\x18\x01" for it in friends]
    lies = b"".join(part(number, each) for number in (8, 9) for each in said)  # who is closer, who provides

    async def lie(info: Any, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            asked = await varint.read_prefixed(reader.readexactly, LIMIT)
            writer.write(varint.prefixed(b"\x08" + varint.encode(int(varint.fields(asked).get(1, 0))) + lies))

    def asking(kind: str) -> Any:
        dht = pb.DHTRequest(type=getattr(pb.DHTRequest, kind), cid=b"\x01\x55" + KEY, count=64, timeout=10)
        return p2pd.request_of("DHT", dht=dht)

    async def names() -> set[PeerId]:
        _, reader, writer = await daemon._connect(asking("FIND_PROVIDERS"))
        found = set[PeerId]()
        while (it := pb.DHTResponse.FromString(await varint.read_prefixed(reader.readexactly, LIMIT))).HasField("peer"):
            found.add(peer_text(it.peer.id))
        writer.close()
        return found

    if friends:
        await daemon.listen([KAD], lambda info: True, lie)
    for each in entry:
        to = pb.ConnectRequest(peer=peer_bytes(each.identity.peer_id), addrs=[to_bytes(each.address)], timeout=9)
        await daemon.request(p2pd.request_of("CONNECT", connect=to), 9.0)
    return Node(lambda: daemon.request(asking("PROVIDE"), 10.0), names, daemon.stop)


async def by_gossip(own: Host, entry: list[Host], friends: list[Host]) -> Node:
    """The network of a node. Hostile ones answer an exchange with announcements of their own."""
    config = NetworkConfig(host=own.address.split("/")[2], port=PORT, mdns=False, peers=tuple(it.full for it in entry))
    service = NetworkService(own.identity, SWARM, config, Memory(), lambda _: None, lambda text, warning: None)
    what: dict[str, Any] = {"groups": (), "held": (), "round": Round(0), "seq": 9}
    sealed = [
        codec.seal(Announcement(addresses=(it.address,), author=it.identity.peer_id, **what), it.identity, SWARM)
        for it in friends
    ]
    honest = service.runner._handler

    async def lie(caller: Caller, request: bytes) -> bytes:
        return wire.encode_items([wire.Item(0, each) for each in Random().sample(sealed, min(16, len(sealed)))])

    async def names() -> set[PeerId]:
        return {view.peer for view in service.exchange.peers(service.clock()) if view.addresses}

    async def stop() -> None:
        living.cancel()
        await asyncio.gather(living, return_exceptions=True)

    if friends:
        service.runner._handler = lambda name: lie if name == wire.EXCHANGE else honest(name)  # type: ignore
    living = asyncio.create_task(service.live())
    return Node(lambda: asyncio.sleep(0), names, stop)


def part(number: int, data: bytes) -> bytes:
    """A field of a protobuf message."""
    return varint.encode(number << 3 | 2) + varint.prefixed(data)


async def measured(start: Start, honest: list[Host], liars: list[Host], ghosts: list[Host], joins: int) -> list[float]:
    """A row of the table."""
    rng, took, shares, victim = Random(0), list[float](), list[float](), Victim(VICTIM)
    ready = list[Node]()
    good = {each.identity.peer_id for each in honest}
    async with AsyncExitStack() as stack:
        for host in [*honest, *liars]:
            entry = honest if host in liars else honest[:1] if host is not honest[0] else []
            node = await start(host, entry, [*liars, *ghosts] if host in liars else [])
            stack.push_async_callback(node.stop)
            ready.append(node)
            if len(ready) == len(honest):
                await asyncio.sleep(5.0)  # until they know of each other
                await asyncio.gather(*(each.provide() for each in ready))
        before = psutil.net_io_counters(pernic=True)["lo"].bytes_recv
        await asyncio.sleep(60)
        spent = (psutil.net_io_counters(pernic=True)["lo"].bytes_recv - before) / (len(honest) + len(liars))
        victim.look()
        victim.bytes = 0
        for number in range(joins):
            own, began, found = Host(Identity.create(), place(900 + number)), time.monotonic(), set[PeerId]()
            node = await start(own, [rng.choice(honest)], [])
            took.append(math.inf)
            while time.monotonic() - began < SECONDS:
                found |= await node.names()
                if len(found & good) >= ENOUGH:
                    took[-1] = min(took[-1], time.monotonic() - began)
                victim.look()
                await asyncio.sleep(0.1)
            await node.stop()
            shares.append(len(found & good) / max(1, len(found - {own.identity.peer_id})))
    victim.close()
    return [joins - took.count(math.inf), median(took), max(took), fmean(shares), spent, victim.bytes / joins]


def place(number: int) -> str:
    """In a /24 of its own."""
    return f"/ip4/127.{16 + number // 250}.{number % 250 + 1}.1/tcp/{PORT}"


def main() -> None:
    parser = command.parser("lab.studies.providers", __doc__)
    parser.add_argument("--nodes", type=int, default=20, help="honest ones: 40 MB each")
    parser.add_argument("--liars", type=int, default=20)
    parser.add_argument("--joins", type=int, default=10)
    options = parser.parse_args()
    key, began = int.from_bytes(hashlib.sha256(KEY).digest()), time.process_time()
    tried = [Identity.create() for _ in range(200 * max(options.nodes, options.liars))]  # Kademlia compares SHA-256
    tried.sort(key=lambda it: int.from_bytes(hashlib.sha256(peer_bytes(it.peer_id)).digest()) ^ key)
    result: dict[str, Any] = {"seconds to choose identities": time.process_time() - began}
    honest = [Host(Identity.create(), place(number)) for number in range(options.nodes)]
    liars = [Host(each, place(500 + number)) for number, each in enumerate(tried[: options.liars])]
    others = tried[options.liars : (1 + GHOSTS) * options.liars]
    ghosts = [Host(each, f"/ip4/{VICTIM}/udp/{PORTS[0]}/quic-v1") for each in others]
    for name, start in (("DHT", by_dht), ("gossip", by_gossip)):
        for hostile in ([], liars) if liars else ([],):
            row = asyncio.run(measured(start, honest, hostile, ghosts, options.joins))
            result[f"{name}, {len(hostile)} hostile"] = row
            print(name, len(hostile), row, flush=True)
    rows = [[name, *(f"{value:.3g}" for value in each)] for name, each in result.items() if isinstance(each, list)]
    columns = ["joined", "p50", "worst", "share of honest", "bytes a minute of a node", "bytes at the victim of a join"]
    command.show(["", *columns], rows)
    command.finish(options, result)


if __name__ == "__main__":
    main()
