"""Hole punching: two nodes behind NATs that met at a relay connect directly, where their NATs let
them.

p2pd has libp2p's protocol for this (DCUtR), but waits until four public addresses have seen the
node at one address; in a swarm with fewer bootstrap nodes it never begins. This is the same idea
(https://github.com/libp2p/specs, relay/DCUtR.md) with what p2pd's control socket offers, see
`/swarm-node/2/punch` in protocol/README.md.

p2pd dials QUIC from the socket it listens on, so a handshake sent to the other side lets that
side's handshake in. But it does not dial a peer that is connected already, even through a relay. So
both first dial, at the same moment, a peer id that nobody has: the refusal names who is there,
which proves the way, and the relayed connection goes on meanwhile. Only then does the side that had
dialled through the relay change over to a direct connection.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import suppress
from ipaddress import ip_address

from protocol import limits
from protocol.messages import PeerId, Rejected
from protocol.wire import PUNCH, Endpoint, decode_punch, encode_punch
from swarm_node.common.lru import Lru
from swarm_node.network.backend import Caller, CallFailed
from swarm_node.network.transport.multiaddr import from_bytes, parts, split_peer, usefulness
from swarm_node.network.transport.streams import StreamBackend
from swarm_node.network.varint import fields, read_prefixed

IDENTIFY = "/ipfs/id/1.0.0"  # tells the side that opens it at which address the other side sees it
_OBSERVED = 4  # field of its message: binary multiaddr of the asking side
MAX_IDENTIFY_BYTES = 8192
WITNESSES = 3  # public peers asked at which address they see this node
SEEN_SECONDS = 30.0  # their answers hold for so long
LOOK_SECONDS = 1.0  # between two looks for relayed connections
WAIT_SECONDS = 15.0  # before the next try, if this peer may not be asked yet
AGAIN_SECONDS = 600.0  # before this node asks the same peer again
PEER_SECONDS = 300.0  # at most one punch with a peer in this time, whichever side asked for it
# Punches with all peers in this time: each sends a few packets to where a peer says
BURST, BURST_SECONDS = 8, 60.0
FRUITLESS, PATIENCE_SECONDS = 8, 1800.0  # after so many failures in a row, one punch in this time
MAX_WANTED = 256  # peers dialled through relays
PROBE_SECONDS = 2.0  # 8 packets of 1280 bytes to somewhere that does not answer
CHANGE_SECONDS = 10.0  # after a punch with a peer: calls may fail because the connection is changed
SETTLE_SECONDS = 3.0  # a change-over takes three round trips
DIAL_SECONDS = 5.0
CALL_SECONDS = 5.0
MIN_PORT = 1024  # a NAT never takes a port below; many services of others listen there

log = logging.getLogger(__name__)


def may_punch(endpoint: Endpoint) -> bool:
    """Whether packets may go to an endpoint that a peer names: on the internet, at a port that a
    NAT may use.
    """
    return endpoint.ip.is_global and not endpoint.ip.is_multicast and endpoint.port >= MIN_PORT


def endpoint_of(address: str) -> Endpoint | None:
    """The endpoint of a multiaddr of QUIC on an IP address; None for other multiaddrs. ValueError
    where it is none.
    """
    match parts(address):
        case [("ip4" | "ip6", host), ("udp", port), ("quic-v1", _)]:
            return Endpoint(ip_address(host), int(port))
    return None


def address_of(endpoint: Endpoint) -> str:
    """The endpoint as a multiaddr."""
    return f"/ip{endpoint.ip.version}/{endpoint.ip}/udp/{endpoint.port}/quic-v1"


def our_endpoints(observed: Sequence[str], listening: Sequence[str]) -> list[Endpoint]:
    """Where this node's QUIC may be reached, from what public peers see and where it listens; one
    of each family.

    Witnesses that are connected by TCP know the address of the NAT, not the port it has for UDP.
    Most NATs keep the port where they can.
    """
    seen = [endpoint for text in observed if (endpoint := endpoint_of(text))]
    if not seen:
        ports = [
            endpoint.port
            for text in listening
            if (endpoint := endpoint_of(text)) and not endpoint.ip.is_loopback
        ]
        hosts = [
            ip_address(value)
            for text in observed
            for name, value in parts(text)
            if name in ("ip4", "ip6")
        ]
        seen = [Endpoint(host, port) for host in hosts for port in ports[:1]]
    likeliest: dict[int, Endpoint] = {}
    for endpoint, _ in Counter(seen).most_common():
        if may_punch(endpoint):
            likeliest.setdefault(endpoint.ip.version, endpoint)
    return list(likeliest.values())


class PunchSchedule:
    """Decides with which peer this node tries hole punching next, and when. Times are seconds on
    one clock.
    """

    def __init__(self, own: PeerId) -> None:
        self._own = own
        # Relayed addresses; when to begin
        self._wanted: Lru[PeerId, tuple[tuple[str, ...], float]] = Lru(MAX_WANTED)
        # When they were last punched with, the longest ago first
        self._last: dict[PeerId, float] = {}
        self._asking: set[PeerId] = set()
        self._latest = -PATIENCE_SECONDS  # when any peer was last punched with
        self._fruitless = 0  # failed punches since the last that succeeded

    def dialled(self, peer: PeerId, addresses: Sequence[str], now: float) -> None:
        """This node dialled these full multiaddrs. If some lead through relays, the connection may
        do so too.
        """
        if relayed := tuple(address for address in addresses if "/p2p-circuit" in address):
            self._wanted[peer] = (relayed, self._wanted.get(peer, ((), now))[1])

    def waits(self, now: float) -> bool:
        """Whether `due` may name somebody."""
        return any(when <= now for _, when in self._wanted.values())

    def due(self, relayed: Collection[PeerId], now: float) -> list[tuple[PeerId, tuple[str, ...]]]:
        """Whom to ask now, and the addresses to fall back on. `relayed`: peers connected through
        relays only.
        """
        begun = []
        for peer, (addresses, when) in list(self._wanted.items()):
            if when > now:
                continue
            if peer not in relayed:
                del self._wanted[peer]
            elif self._take(peer, now):
                self._wanted[peer] = (addresses, now + AGAIN_SECONDS)
                self._asking.add(peer)
                begun.append((peer, addresses))
            else:
                self._wanted[peer] = (addresses, now + WAIT_SECONDS)
        return begun

    def recent(self, peer: PeerId, now: float) -> bool:
        """Whether a connection with this peer may have been changed over just now."""
        return peer in self._last and now - self._last[peer] < CHANGE_SECONDS

    def ended(self, peer: PeerId) -> None:
        """This node no longer asks the peer."""
        self._asking.discard(peer)

    def tried(self, reached: bool) -> None:
        """Handshakes were sent to a peer. Behind some NATs all of them fail, and after enough
        failures p2pd takes the network for one without UDP.
        """
        self._fruitless = 0 if reached else self._fruitless + 1

    def agrees(self, peer: PeerId, now: float) -> bool:
        """Whether to take part when this peer asks. If two ask each other at once, the higher id's
        request counts.
        """
        if peer in self._asking and self._own < peer:
            self._asking.remove(peer)  # so once only
            return True
        return self._take(peer, now)

    def _take(self, peer: PeerId, now: float) -> bool:
        while self._last and now - next(iter(self._last.values())) >= PEER_SECONDS:
            del self._last[next(iter(self._last))]
        recent = sum(now - when < BURST_SECONDS for when in self._last.values())
        if peer in self._last or recent >= BURST:
            return False
        if self._fruitless >= FRUITLESS and now - self._latest < PATIENCE_SECONDS:
            return False
        self._last[peer] = self._latest = now
        return True


class Punching:
    """Changes relayed connections for direct ones, for as long as `run` runs. Belongs to one
    asyncio loop.
    """

    def __init__(self, backend: StreamBackend) -> None:
        self._backend = backend
        self._plan = PunchSchedule(backend.peer_id)
        # As witnesses see them, and when they said so
        self._own: tuple[list[Endpoint], float] = ([], -SEEN_SECONDS)

    def start_over(self) -> None:
        """This machine has slept: forgets with whom it punched, and how others saw it."""
        self._plan = PunchSchedule(self._backend.peer_id)
        self._own = ([], -SEEN_SECONDS)

    def dialled(self, peer: PeerId, addresses: Sequence[str]) -> None:
        """Notes the dialled addresses that lead to this peer through relays."""
        self._plan.dialled(peer, addresses, _now())

    async def run(self) -> None:
        """Looks for relayed connections that could be direct, until it is cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if self._plan.waits(_now()):
                with suppress(CallFailed):  # the daemon is gone: `wait_closed` says so
                    for peer, relayed in self._plan.due(
                        await self._connected(relayed=True), _now()
                    ):
                        self._backend.spawn(self._ask(peer, relayed))

    async def answer(self, caller: Caller, request: bytes) -> bytes:
        endpoints = decode_punch(request)
        if isinstance(endpoints, Rejected):
            return self._refuse(str(endpoints.reason))
        if "/p2p-circuit" not in caller.address:
            return self._refuse("not relayed")
        if not self._backend.dialling.gate.welcomes(caller.peer):
            return self._refuse("not a member")
        own = await self._endpoints()
        if endpoints:
            if not own or not all(map(may_punch, endpoints)):
                return self._refuse("no public address")
            if not self._plan.agrees(caller.peer, _now()):
                return self._refuse("too often")
            self._backend.spawn(self._open(caller.peer, endpoints))
        return encode_punch(own)

    async def settled(self, peer: PeerId) -> bool:
        """Whether a call may have failed because the connection was just changing from the relay to
        a direct one, which is there now.
        """
        with suppress(CallFailed, TimeoutError):
            async with asyncio.timeout(SETTLE_SECONDS):
                while self._plan.recent(peer, _now()):
                    if peer in await self._connected(relayed=False):
                        return True
                    await asyncio.sleep(0.02)
        return False

    def _refuse(self, reason: str) -> bytes:
        self._backend.counters[f"punch refused: {reason}"] += 1
        return b""

    async def _ask(self, peer: PeerId, relayed: Sequence[str]) -> None:
        try:
            outcome = await self._punch(peer, relayed)
        except CallFailed as error:
            outcome = str(error.failure)
        finally:
            self._plan.ended(peer)
        self._backend.counters[f"punch: {outcome}"] += 1
        log.info("hole punching with %s: %s", peer, outcome)

    async def _punch(self, peer: PeerId, relayed: Sequence[str]) -> str:
        """Tries to get a direct connection to the peer; the outcome, as the name of a counter."""
        own = await self._endpoints() if self._backend.dialling.gate.welcomes(peer) else []
        if not own:
            return "own address not known"
        began = _now()
        theirs = await self._tell(peer, [])
        trip = _now() - began
        if not theirs:
            return "no public address"
        telling = asyncio.create_task(self._tell(peer, own))
        try:
            await asyncio.sleep(trip / 2)
            reached = await self._reach(peer, theirs)
            await telling
        finally:
            telling.cancel()
        if not reached:
            return "no way through"
        return "direct" if await self._change_over(peer, reached, relayed) else "way lost"

    async def _tell(self, peer: PeerId, endpoints: Sequence[Endpoint]) -> list[Endpoint]:
        """The endpoints of the peer, told those of this node; none if they make no sense."""
        request = encode_punch(endpoints)
        theirs = decode_punch(
            await self._backend.call(peer, PUNCH, request, limits.MAX_PUNCH_BYTES, CALL_SECONDS)
        )
        if isinstance(theirs, Rejected) or not all(map(may_punch, theirs)):
            self._backend.counters["punch reply rejected"] += 1
            return []
        return theirs

    async def _open(self, peer: PeerId, endpoints: Sequence[Endpoint]) -> None:
        outcome = "way open" if await self._reach(peer, endpoints) else "no way through"
        self._backend.counters[f"punch for another: {outcome}"] += 1

    async def _reach(self, peer: PeerId, endpoints: Sequence[Endpoint]) -> list[str]:
        """Addresses at which this very peer answered."""
        addresses = [address_of(each) for each in endpoints]
        answers = await asyncio.gather(
            *(self._backend.dialling.finds(peer, address, PROBE_SECONDS) for address in addresses)
        )
        self._plan.tried(any(answers))
        return [address for address, answered in zip(addresses, answers, strict=True) if answered]

    async def _change_over(
        self, peer: PeerId, direct: Sequence[str], relayed: Sequence[str]
    ) -> bool:
        """Whether the new connection is direct. p2pd gives direct addresses half a second before it
        tries relays.
        """
        await self._backend.disconnect(peer)
        await self._backend.dial(
            [*(f"{address}/p2p/{peer}" for address in direct), *relayed], DIAL_SECONDS
        )
        return peer in await self._connected(relayed=False)

    async def _connected(self, relayed: bool) -> set[PeerId]:
        """Peers that are connected through relays only, or those that are connected directly."""
        connections = await self._backend.connections()
        direct = {each.peer for each in connections if not each.relayed}
        if not relayed:
            return direct
        return {each.peer for each in connections} - direct

    async def _endpoints(self) -> list[Endpoint]:
        """The endpoints of this node, as public peers see them; empty where there is no such peer
        to ask.
        """
        found, since = self._own
        if _now() - since >= SEEN_SECONDS:
            found = []
            with suppress(CallFailed):
                connections = await self._backend.connections()
                public = [
                    each for each in connections if each.address and usefulness(each.address) == 0
                ]
                public.sort(key=lambda each: "/quic-v1" not in each.address)
                seen = await asyncio.gather(
                    *(self._observed(each.peer) for each in public[:WITNESSES])
                )
                listening = [split_peer(each)[0] for each in await self._backend.addresses()]
                if found := our_endpoints([text for text in seen if text], listening):
                    self._own = (found, _now())
        return found

    async def _observed(self, witness: PeerId) -> str:
        """Multiaddr at which this peer sees the node; "" if it does not say."""
        with suppress(CallFailed, TimeoutError, EOFError, OSError, ValueError):
            async with asyncio.timeout(CALL_SECONDS):
                stream = await self._backend.open_stream(witness, IDENTIFY)
                try:
                    observed = fields(await read_prefixed(stream.read, MAX_IDENTIFY_BYTES)).get(
                        _OBSERVED
                    )
                finally:
                    await stream.close()
            return from_bytes(observed) if isinstance(observed, bytes) else ""
        return ""


def _now() -> float:
    return asyncio.get_running_loop().time()
