"""Would a DHT find a swarm for newcomers better than gossip does? p2pd's Kademlia beside the exchange of announcements.

    unshare --net python -m lab.studies.providers --json     # as root

Each node has a p2pd in a /24 of its own. With the DHT it provides the network id, and a newcomer that knows one node
asks for providers; by gossip, it is the network of a node. Hostile nodes, four in a /24, are nearest to the key of the
network id. They answer each question with each other, and with ghosts at a victim's address.
"""

import asyncio
import hashlib
import math
import subprocess
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from random import Random
from statistics import fmean, median
from typing import Any

import psutil

from lab.benchmarks import command
from lab.studies.attackers import Victim
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

SWARM, VICTIM, PORT, LIMIT, ENOUGH, SECONDS = "benchmark", "45.200.0.1", 31330, 1 << 20, 8, 15.0
KEY = b"\x12\x20" + hashlib.sha256(SWARM.encode()).digest()  # the multihash of the CID
PLAIN = p2pd._flags
Host = tuple[Identity, str]  # and its address
Node = tuple[Callable[[], Awaitable[Any]], Callable[[], Awaitable[set[PeerId]]], Callable[[], Awaitable[Any]]]


async def by_dht(own: Host, entry: list[Host], friends: list[Host]) -> Node:
    """A p2pd with nothing but the DHT: it provides, finds names, stops. Hostile ones speak its protocol themselves."""
    p2pd._flags = PLAIN if friends else lambda options: [*PLAIN(options), "-dhtServer=1"]
    daemon, pb = await p2pd.Daemon.start(HostOptions(NetworkConfig(), own[0], [own[1]])), p2pd.pb()
    said = [(varint.prefixed(peer_bytes(it.peer_id)), varint.prefixed(to_bytes(at))) for it, at in friends]
    known = [b"\x0a" + peer + b"\x12" + at + b"\x18\x01" for peer, at in said]
    lies = b"".join(kind + varint.prefixed(each) for kind in (b"\x42", b"\x4a") for each in known)  # closer, providing

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
        await daemon.listen(["/ipfs/kad/1.0.0"], lambda info: True, lie)
    for it, at in entry:
        to = pb.ConnectRequest(peer=peer_bytes(it.peer_id), addrs=[to_bytes(at)], timeout=9)
        await daemon.request(p2pd.request_of("CONNECT", connect=to), 9.0)
    return lambda: daemon.request(asking("PROVIDE"), 10.0), names, daemon.stop


async def by_gossip(own: Host, entry: list[Host], friends: list[Host]) -> Node:
    """The network of a node. Hostile ones answer an exchange with announcements of their own."""
    peers = tuple(f"{at}/p2p/{it.peer_id}" for it, at in entry)
    config = NetworkConfig(host=own[1].split("/")[2], port=PORT, mdns=False, peers=peers)
    service = NetworkService(own[0], SWARM, config, Memory(), lambda _: None, lambda text, warning: None)
    p2pd._flags, what = PLAIN, dict[str, Any](groups=(), held=(), round=Round(0), seq=9)
    said = [(Announcement(addresses=(at,), author=it.peer_id, **what), it) for it, at in friends]
    sealed = [codec.seal(each, it, SWARM) for each, it in said]

    async def lie(caller: Caller, request: bytes) -> bytes:
        return wire.encode_items([wire.Item(0, each) for each in Random().sample(sealed, min(16, len(sealed)))])

    async def names() -> set[PeerId]:
        return {view.peer for view in service.exchange.peers(service.clock()) if view.addresses}

    async def stop() -> None:
        living.cancel()
        await asyncio.wait([living])

    if friends:
        plain = service.runner._handler
        service.runner._handler = lambda name: lie if name == wire.EXCHANGE else plain(name)  # type: ignore
    living = asyncio.create_task(service.live())
    while not service.runner.addresses:  # one after another, as daemons give up where forty start at once
        await asyncio.sleep(0.05)
    return lambda: asyncio.sleep(0), names, stop


async def measured(start: Any, honest: list[Host], liars: list[Host], friends: list[Host], joins: int) -> list[float]:
    rng, took, shares, ready, victim = Random(0), list[float](), list[float](), list[Node](), Victim(VICTIM)
    good = {identity.peer_id for identity, _ in honest}
    async with AsyncExitStack() as stack:
        for host in [*honest, *liars]:
            knows = honest if host in liars else honest[:1] if ready else []
            ready.append(await start(host, knows, friends if host in liars else []))
            stack.push_async_callback(ready[-1][2])
        await asyncio.sleep(5.0)  # until they know of each other
        await asyncio.gather(*(provide() for provide, _, _ in ready[: len(honest)]), return_exceptions=True)
        before = psutil.net_io_counters(pernic=True)["lo"].bytes_recv
        await asyncio.sleep(60)
        spent = (psutil.net_io_counters(pernic=True)["lo"].bytes_recv - before) / (len(honest) + len(liars))
        for number in range(joins):
            began, found, times = time.monotonic(), set[PeerId](), [math.inf]
            _, names, stop = await start((Identity.create(), place(900 + number)), [rng.choice(honest)], [])
            while time.monotonic() - began < SECONDS:
                found |= await names()
                times += [time.monotonic() - began] if len(found & good) >= ENOUGH else []
                victim.look()
                await asyncio.sleep(0.1)
            await stop()
            took.append(min(times))
            shares.append(len(found & good) / max(1, len(found)))
    victim.close()
    return [joins - took.count(math.inf), median(took), max(took), fmean(shares), spent, victim.bytes]


def place(number: int, of: int = 1) -> str:  # so many in a /24
    return f"/ip4/45.{number // 250}.{number % 250 // of + 1}.{number % of + 1}/tcp/{PORT}"


def main() -> None:
    parser = command.parser("lab.studies.providers", __doc__)
    for name, default in (("nodes", 20), ("liars", 20), ("joins", 10)):  # a node takes 40 MB
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    subprocess.run(["sh", "-c", "ip link set lo up && ip route add local 45.0.0.0/8 dev lo"], check=True)
    key, count, began = int.from_bytes(hashlib.sha256(KEY).digest()), options.liars, time.process_time()
    honest = [(Identity.create(), place(number)) for number in range(options.nodes)]
    tried = [Identity.create() for _ in range(200 * count)]  # Kademlia compares SHA-256
    tried.sort(key=lambda it: int.from_bytes(hashlib.sha256(peer_bytes(it.peer_id)).digest()) ^ key)
    result: dict[str, Any] = {"seconds to choose identities": time.process_time() - began}
    liars = [(each, place(500 + number, 4)) for number, each in enumerate(tried[:count])]
    friends = [*liars, *((each, f"/ip4/{VICTIM}/udp/4001/quic-v1") for each in tried[count : 4 * count])]
    for name, start in (("gossip", by_gossip), ("DHT", by_dht)):
        for hostile in ([], liars):
            result[f"{name}, {len(hostile)}"] = asyncio.run(measured(start, honest, hostile, friends, options.joins))
            print(result, flush=True)
    rows = [[name, *(f"{value:.3g}" for value in each)] for name, each in result.items() if isinstance(each, list)]
    command.show(["", "joined", "p50", "worst", "honest", "bytes a minute of a node", "bytes at the victim"], rows)
    command.finish(options, result)


if __name__ == "__main__":
    main()
