"""How both backends dial: only what the gate lets pass, and the gate is told how each dial
ended.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from ipaddress import ip_address, ip_network

import psutil

from protocol.identity import Identity
from protocol.messages import PeerId
from swarm_node.network.backend import CallFailed, Connection, Failure
from swarm_node.network.parties import Range
from swarm_node.network.transport.gate import Anywhere, DialDecision, DialGate
from swarm_node.network.transport.multiaddr import one_peer, parts, split_peer

# p2pd gives an address 5 s; it says which it tried only if the dial ends by itself
GATED_SECONDS = 6.0
LOOKUP_SECONDS = 2.0


class DialFailed(CallFailed):
    """Nobody answered. `further`: bytes that were sent to addresses which the library knew by
    itself.
    """

    def __init__(self, failure: Failure, detail: str = "", further: int = 0) -> None:
        super().__init__(failure, detail)
        self.further = further


Connect = Callable[[PeerId, Sequence[str], float], Awaitable[None]]  # raises CallFailed only


class Dialling:
    """Dials of one backend. Belongs to one asyncio loop; the gate outlives it."""

    def __init__(
        self,
        gate: DialGate | None,
        connect: Connect,
        connections: Callable[[], Awaitable[Sequence[Connection]]],
        careful: bool = False,
    ) -> None:
        """`gate`: None where only this program's user names addresses. `careful`: the library also
        dials addresses that the peer itself told it; so each dial first makes sure that the peer is
        where others say.
        """
        self.gate = gate or DialGate(Anywhere())
        self._connect, self._connections, self._careful = connect, connections, careful
        self._is_entrance = gate.where.is_entrance if gate else lambda _: False

    def leads_to_given(self, address: str) -> bool:
        """Whether a connection ends at an address that this node's user gave, and does not lead
        through it.
        """
        return bool(address) and "/p2p-circuit" not in address and self._is_entrance(address)

    async def dial(self, addresses: Sequence[str], timeout: float) -> PeerId:
        """`Backend.dial`, for those addresses that the gate lets pass."""
        try:
            peer = one_peer(addresses)
        except ValueError as error:
            raise CallFailed(Failure.UNREACHABLE, str(error)) from error
        loop = asyncio.get_running_loop()
        choice = self.gate.choose(await self._resolved(addresses), loop.time())
        if not choice.addresses:
            raise CallFailed(Failure.HELD, choice.reason)
        try:
            if self._careful and choice.targets:
                await self._make_sure(peer, choice)
            await self._connect(
                peer, choice.addresses, GATED_SECONDS if choice.targets else timeout
            )
        except BaseException as error:
            self.gate.failed(
                choice, loop.time(), error.further if isinstance(error, DialFailed) else 0
            )
            raise
        self.gate.reached(choice, await self._ends(peer), loop.time())
        return peer

    async def finds(self, peer: PeerId, address: str, timeout: float) -> bool:
        """Whether this very peer is at an address, which is without its id. Dials an id that nobody
        has: the refusal names the peer that is there, and no connection is made.
        """
        now = asyncio.get_running_loop().time
        choice = self.gate.choose([f"{address}/p2p/{peer}"], now())
        if not choice.addresses:
            return False
        if found := await self._is_there(peer, address, timeout):
            self.gate.reached(choice, [address], now())
        else:
            self.gate.failed(choice, now())
        return found

    async def _is_there(self, peer: PeerId, address: str, timeout: float) -> bool:
        nobody = Identity.create().peer_id
        try:
            await self._connect(nobody, [f"{address}/p2p/{nobody}"], timeout)
        except CallFailed as error:
            return f"remote key matches {peer}" in str(error)
        return False

    async def _make_sure(self, peer: PeerId, choice: DialDecision) -> None:
        """CallFailed where the peer is at none of the addresses. Not checked if one is relayed: it
        cannot be asked.
        """
        direct = [split_peer(each.address)[0] for each in choice.targets if not each.relayed]
        if len(direct) == len(choice.addresses):
            answers = await asyncio.gather(
                *(self._is_there(peer, address, GATED_SECONDS) for address in direct)
            )
            if not any(answers):
                raise CallFailed(Failure.UNREACHABLE, "nobody of that name there")

    async def _ends(self, peer: PeerId) -> list[str]:
        """Where the peer is connected: it may have been connected before, and then nothing was
        dialled.
        """
        with suppress(CallFailed):
            return [each.address for each in await self._connections() if each.peer == peer]
        return []

    async def _resolved(self, addresses: Sequence[str]) -> list[str]:
        """The addresses, with host names of others looked up: a second lookup by the library may
        lead elsewhere.
        """
        found: list[str] = []
        for address in addresses:
            (kind, name), *_ = parts(address)
            if kind in ("ip4", "ip6") or self.gate.where.is_given(address):
                found.append(address)
            elif self.gate.may_look_up(asyncio.get_running_loop().time()):
                found += [
                    address.replace(f"/{kind}/{name}", ip, 1) for ip in await _look_up(kind, name)
                ]
        return found


async def _look_up(kind: str, name: str) -> list[str]:
    """Beginnings of multiaddrs for a host name, one of each family that `kind` allows."""
    family = {"dns4": socket.AF_INET, "dns6": socket.AF_INET6}.get(kind, socket.AF_UNSPEC)
    with suppress(OSError, UnicodeError):  # TimeoutError is an OSError
        async with asyncio.timeout(LOOKUP_SECONDS):
            entries = await asyncio.get_running_loop().getaddrinfo(
                name, None, family=family, type=socket.SOCK_STREAM
            )
            kinds = {socket.AF_INET: "ip4", socket.AF_INET6: "ip6"}
            best = {
                kinds[entry[0]]: entry[4][0] for entry in reversed(entries) if entry[0] in kinds
            }
            return [f"/{kind}/{host}" for kind, host in best.items() if "%" not in str(host)]
    return []


def own_networks() -> list[Range]:
    """The networks of this machine's interfaces, at this moment."""
    found: list[Range] = []
    for entry in (entry for entries in psutil.net_if_addrs().values() for entry in entries):
        if entry.family in (socket.AF_INET, socket.AF_INET6) and entry.netmask:
            with suppress(ValueError):
                host = entry.address.partition("%")[0]
                bits = int(ip_address(entry.netmask)).bit_count()
                found.append(ip_network(f"{host}/{bits}", strict=False))
    return found
