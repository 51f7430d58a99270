"""Finding nodes on the local network without bootstrap nodes: multicast DNS (RFC 6762), service
`_swarm-node._tcp`.

The service is not libp2p's, so that both backends find each other and no other libp2p program is
dialled. What is received is a hint that anybody on the network can forge: the dial proves who is
there.
"""

import asyncio
import ipaddress
from collections.abc import Callable, Sequence

from zeroconf import Error, InterfaceChoice, ServiceStateChange, Zeroconf
from zeroconf.asyncio import AsyncServiceBrowser, AsyncServiceInfo, AsyncZeroconf

from protocol.messages import PeerId
from swarm_node.network.transport.multiaddr import parts, split_peer

SERVICE = "_swarm-node._tcp.local."
MAX_ADDRESSES = 8  # announced and believed, per node
MAX_TXT_BYTES = 255  # one string of a TXT record, by RFC 1035; an address is one
MAX_ASKING = 16  # services asked for their details at once; more are dropped, they come again
ASK_MILLISECONDS = 3000
TELL_SECONDS = 1.0  # between two looks at own addresses

Found = Callable[[PeerId, Sequence[str]], None]  # a node of the same swarm and its full multiaddrs


class Lan:
    """Tells the local network about this node, and calls `found` for each other one that it
    finds.
    """

    def __init__(self, peer: PeerId, swarm: str, host: str, found: Found) -> None:
        """`host`: the address the node listens on; mDNS stays on the interface that has it."""
        self._peer = peer
        self._swarm = swarm.encode()
        self._interfaces = (
            InterfaceChoice.All if ipaddress.ip_address(host).is_unspecified else [host]
        )
        self._found = found
        self._told: list[str] = []
        self._zeroconf: AsyncZeroconf | None = None
        self._browser: AsyncServiceBrowser | None = None
        self._asking: set[asyncio.Task[None]] = set()

    async def start(self, addresses: Sequence[str]) -> None:
        """`addresses`: full multiaddrs of this node. OSError where there is no multicast, or a node
        of the same id.
        """
        self._zeroconf = AsyncZeroconf(interfaces=self._interfaces)
        try:
            self._told = _local(addresses)
            await self._zeroconf.async_register_service(self._service())
        except Error as error:  # the name is taken
            raise OSError(
                f"another node on the local network has this identity: {self._peer}"
            ) from error
        self._browser = AsyncServiceBrowser(
            self._zeroconf.zeroconf, SERVICE, handlers=[self._noticed]
        )

    async def run(self, addresses: Callable[[], Sequence[str]], say: Callable[[str], None]) -> None:
        """Announces the addresses, once there are some, until it is cancelled. `say` is told why it
        cannot.
        """
        try:
            while not addresses():
                await asyncio.sleep(TELL_SECONDS)
            await self.start(addresses())
            while True:
                await asyncio.sleep(TELL_SECONDS)
                if self._zeroconf is not None and _local(addresses()) != self._told:
                    self._told = _local(addresses())
                    await self._zeroconf.async_update_service(self._service())
        except OSError as error:
            say(f"no discovery on the local network: {error}; --network.no-mdns turns it off")
        finally:
            await self.close()

    def _service(self) -> AsyncServiceInfo:
        properties = {f"a{number}": address for number, address in enumerate(self._told)}
        ports = (
            int(value) for address in self._told for name, value in parts(address) if name == "tcp"
        )
        return AsyncServiceInfo(
            SERVICE,
            f"{self._peer}.{SERVICE}",
            port=next(ports, 0),
            properties={"swarm": self._swarm, **properties},
            server=f"{self._peer}.local.",
            parsed_addresses=sorted({parts(address)[0][1] for address in self._told}),
        )

    async def close(self) -> None:
        """Says goodbye, so that others forget this node at once."""
        for task in self._asking:
            task.cancel()
        if self._browser is not None:
            await self._browser.async_cancel()
        if self._zeroconf is not None:
            await self._zeroconf.async_unregister_all_services()
            await self._zeroconf.async_close()

    def _noticed(
        self, zeroconf: Zeroconf, service_type: str, name: str, state_change: ServiceStateChange
    ) -> None:
        gone = state_change is ServiceStateChange.Removed
        if not gone and not name.startswith(self._peer) and len(self._asking) < MAX_ASKING:
            task = asyncio.get_running_loop().create_task(self._ask(zeroconf, name))
            self._asking.add(task)
            task.add_done_callback(self._asking.discard)

    async def _ask(self, zeroconf: Zeroconf, name: str) -> None:
        info = AsyncServiceInfo(SERVICE, name)
        if (
            not await info.async_request(zeroconf, ASK_MILLISECONDS)
            or info.properties.get(b"swarm") != self._swarm
        ):
            return
        addresses = []
        for number in range(MAX_ADDRESSES):
            text = (info.properties.get(f"a{number}".encode()) or b"").decode(errors="replace")
            if _is_local(text) and f"{split_peer(text)[1]}.{SERVICE}" == name:
                addresses.append(text)
        if addresses:
            self._found(split_peer(addresses[0])[1], addresses)


def _local(addresses: Sequence[str]) -> list[str]:
    """The addresses that are for the local network, at most `MAX_ADDRESSES`."""
    return [it for it in addresses if _is_local(it) and len(it) < MAX_TXT_BYTES - 4][:MAX_ADDRESSES]


def _is_local(address: str) -> bool:
    """Whether this is a full multiaddr with an IP address that is not a public one."""
    try:
        split_peer(address)
        return not ipaddress.ip_address(parts(address)[0][1]).is_global
    except ValueError:
        return False
