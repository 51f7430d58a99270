"""Would a DHT find a swarm for newcomers better than gossip does? p2pd's Kademlia beside the exchange of announcements.

    unshare --net sh -c 'ip link set lo up; python -m lab.studies.providers --json'     # as root; docs/results/providers.md

Each node has a p2pd in a /24 of its own. With the DHT it provides the network id, and a newcomer that knows any one node
asks for providers; by gossip, it is the network of a node. Hostile nodes have identities nearest to the key of the
network id. They answer every question with each other, and with as many ghosts at a victim's address.
"""

import asyncio
import hashlib
import math
import time
from contextlib import AsyncExitStack, suppress
from itertools import pairwise
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
from swarm_node.network.process.messages import Memory
from swarm_node.network.process.service import NetworkService
from swarm_node.network.transport import p2pd
from swarm_node.network.transport.backends import HostOptions
from swarm_node.network.transport.multiaddr import peer_bytes, peer_text, to_bytes
from swarm_node.settings import NetworkConfig

SWARM, KAD, VICTIM, PORT = "benchmark", "/ipfs/kad/1.0.0", "127.200.0.1", 31330
ENOUGH, MANY, SECONDS, LIMIT = 8, 64, 30.0, 1 << 20
KEY = b"\x12\x20" + hashlib.sha256(SWARM.encode()).digest()  # the multihash of the CID
PLAIN = p2pd._flags
Host = tuple[Identity, str]  # and its IPv4


def where(host: Host) -> str:
    return f"/ip4/{host[1]}/tcp/{PORT}"


def near(tries: int) -> list[Identity]:
    """So many identities, those nearest to the key first: Kademlia compares SHA-256 of both."""
    key = int.from_bytes(hashlib.sha256(KEY).digest())
    away = {i: int.from_bytes(hashlib.sha256(peer_bytes(i.peer_id)).digest()) ^ key for i in map(one, range(tries))}
    return sorted(away, key=lambda identity: away[identity])


def one(_: int) -> Identity:
    return Identity.create()


def part(number: int, data: bytes) -> bytes:
    return varint.encode(number << 3 | 2) + varint.prefixed(data)


class Dht:
    """A p2pd that does nothing but the DHT. Hostile ones speak its protocol themselves."""

    def __init__(self, ghosts: list[tuple[PeerId, str]]) -> None:
        self._ghosts, self._daemons = ghosts, list[p2pd.Daemon]()

    async def start(self, own: Host, entry: list[Host], hostile: bool) -> p2pd.Daemon:
        p2pd._flags = PLAIN if hostile else lambda options: [*PLAIN(options), "-dhtServer=1"]
        daemon = await p2pd.Daemon.start(HostOptions(NetworkConfig(), own[0], [where(own)]))
        if hostile:
            await daemon.listen([KAD], lambda info: True, self._lie)
        for each in entry:
            to = p2pd.pb().ConnectRequest(peer=peer_bytes(each[0].peer_id), addrs=[to_bytes(where(each))], timeout=9)
            await daemon.request(p2pd.request_of("CONNECT", connect=to), 9.0)
        return daemon

    async def provide(self, daemon: p2pd.Daemon) -> None:
        await daemon.request(self._asked("PROVIDE"), SECONDS)

    async def found(self, daemon: p2pd.Daemon, names: dict[PeerId, float]) -> None:
        """Providers, and when they were known, until there are no more."""
        _, reader, writer = await daemon._connect(self._asked("FIND_PROVIDERS"))
        while True:
            said = p2pd.pb().DHTResponse.FromString(await varint.read_prefixed(reader.readexactly, LIMIT))
            if said.type == p2pd.pb().DHTResponse.END:
                return writer.close()
            names.setdefault(peer_text(said.peer.id), time.monotonic())

    def _asked(self, kind: str) -> Any:
        dht = p2pd.pb().DHTRequest
        asked = dht(type=getattr(dht, kind), cid=b"\x01\x55" + KEY, count=MANY, timeout=int(SECONDS))
        return p2pd.request_of("DHT", dht=asked)

    async def _lie(self, info: Any, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        friends = [
            part(1, peer_bytes(peer)) + part(2, to_bytes(address)) + b"\x18\x01" for peer, address in self._ghosts
        ]
        while True:
            asked = varint.fields(await varint.read_prefixed(reader.readexactly, LIMIT))
            said = b"\x08" + varint.encode(int(asked.get(1, 0))) + part(2, bytes(asked.get(2, b"")))  # type: ignore[arg-type]
            said += b"".join(part(number, each) for number in (8, 9) for each in friends)
            writer.write(varint.prefixed(said))
            await writer.drain()


class Gossip:
    """The network of a node. Hostile ones answer an exchange with announcements of their own."""

    def __init__(self, ghosts: list[tuple[PeerId, str]], liars: list[Identity]) -> None:
        by = {each.peer_id: each for each in liars}
        said = [
            Announcement(addresses=(to,), author=peer, groups=(), held=(), round=Round(0), seq=9) for peer, to in ghosts
        ]
        self._sealed = [codec.seal(each, by[each.author], SWARM) for each in said]

    async def start(self, own: Host, entry: list[Host], hostile: bool) -> NetworkService:
        peers = tuple(f"{where(each)}/p2p/{each[0].peer_id}" for each in entry)
        config = NetworkConfig(host=own[1], port=PORT, mdns=False, peers=peers)
        service = NetworkService(own[0], SWARM, config, Memory(), lambda _: None, lambda text, warning: None)
        honest = service.runner._handler

        async def lie(caller: Any, request: bytes) -> bytes:
            items = [wire.Item(0, each) for each in Random().sample(self._sealed, min(16, len(self._sealed)))]
            return wire.encode_items(items)

        if hostile:
            service.runner._handler = lambda name: lie if name == wire.EXCHANGE else honest(name)  # type: ignore
        service.task = asyncio.create_task(service.live())  # type: ignore[attr-defined]
        return service

    async def provide(self, service: NetworkService) -> None:
        """It tells of itself without being asked."""

    async def found(self, service: NetworkService, names: dict[PeerId, float]) -> None:
        while True:
            for view in service.exchange.peers(service.clock()):
                if view.addresses:
                    names.setdefault(view.peer, time.monotonic())
            await asyncio.sleep(0.05)


async def measured(way: Dht | Gossip, honest: list[Host], liars: list[Host], joins: int) -> dict[str, Any]:
    """How joins go, and what it costs those who are there."""
    rng, took, shares, victim = Random(0), list[float](), list[float](), Victim(VICTIM)
    good = {each[0].peer_id for each in honest}
    async with AsyncExitStack() as stack:

        async def add(own: Host, entry: list[Host], hostile: bool = False) -> Any:
            node = await way.start(own, entry, hostile)
            stack.push_async_callback(stop, node)
            return node

        counts = [psutil.net_io_counters(pernic=True)["lo"].bytes_recv]
        nodes = [await add(host, honest[:1] if host is not honest[0] else []) for host in honest]
        await asyncio.gather(*map(way.provide, nodes))
        for _ in range(2):
            await asyncio.sleep(60)
            counts.append(psutil.net_io_counters(pernic=True)["lo"].bytes_recv)
        for host in liars:
            await add(host, honest, True)
        await asyncio.sleep(SECONDS if liars else 0)
        victim.look()
        victim.bytes = 0
        for number in range(joins):
            names, own, began = dict[PeerId, float](), (one(0), place(900 + number)), time.monotonic()
            node = await way.start(own, [rng.choice(honest)], False)
            with suppress(TimeoutError):
                async with asyncio.timeout(SECONDS):
                    await way.found(node, names)
            await stop(node)
            times = sorted(at - began for peer, at in names.items() if peer in good)
            took.append(times[ENOUGH - 1] if len(times) >= ENOUGH else math.inf)
            shares.append(len(times) / max(1, len(names)))
            victim.look()
    victim.close()
    a_minute = [(b - a) / len(honest) for a, b in pairwise(counts)]
    found = [seconds for seconds in took if seconds < math.inf]
    result = {"never": joins - len(found), "p50": median(found or [math.inf]), "worst": max(found or [math.inf])}
    return result | {"honest": fmean(shares), "bytes": a_minute, "victim": victim.bytes / joins}


async def stop(node: Any) -> None:
    """Of either kind."""
    if isinstance(node, p2pd.Daemon):
        return await node.stop()
    node.task.cancel()
    await asyncio.gather(node.task, return_exceptions=True)


def place(number: int) -> str:
    """In a /24 of its own."""
    return f"127.{16 + number // 250}.{number % 250 + 1}.1"


def main() -> None:
    parser = command.parser("lab.studies.providers", __doc__)
    parser.add_argument("--nodes", type=int, default=20, help="honest ones: 40 MB each")
    parser.add_argument("--liars", type=int, default=20)
    parser.add_argument("--joins", type=int, default=10)
    options = parser.parse_args()
    began = time.process_time()
    nearest = near(200 * options.liars)
    result: dict[str, Any] = {"seconds to choose identities": time.process_time() - began}
    honest = [(one(0), place(number)) for number in range(options.nodes)]
    liars = [(each, place(500 + number)) for number, each in enumerate(nearest[: options.liars])]
    ghosts = [
        (each.peer_id, f"/ip4/{VICTIM}/udp/{PORTS[0]}/quic-v1") for each in nearest[options.liars : 4 * options.liars]
    ]
    friends = [*((each[0].peer_id, where(each)) for each in liars), *ghosts]
    for name, way in (("DHT", Dht(friends)), ("gossip", Gossip(friends, nearest[: 4 * options.liars]))):
        for hostile in ([], liars):
            result[f"{name}, {len(hostile)} hostile"] = asyncio.run(measured(way, honest, hostile, options.joins))
    rows = [[name, *(f"{value}" for value in each.values())] for name, each in result.items() if isinstance(each, dict)]
    command.show(["", "never", "p50", "worst", "share honest", "bytes a minute and node", "bytes at the victim"], rows)
    command.finish(options, result)


if __name__ == "__main__":
    main()
