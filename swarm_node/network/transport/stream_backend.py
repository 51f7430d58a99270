"""What both libraries' backends do in the same way: calls over streams, dials through the gate, and relays."""

import asyncio
from abc import abstractmethod
from collections import Counter
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any

from protocol.messages import PeerId
from swarm_node.network.backend import Backend, Caller, Handler
from swarm_node.network.transport.backends import MAX_INBOUND, HostOptions
from swarm_node.network.transport.dialling import Dialling
from swarm_node.network.transport.multiaddr import usefulness
from swarm_node.network.transport.relays import Relays
from swarm_node.network.transport.streams import Answering, Asking, Stream


class StreamBackend(Backend):
    """A backend of a library that opens streams. What the library does is left to subclasses."""

    def __init__(self, options: HostOptions, careful: bool = False) -> None:
        """`careful`: see Dialling."""
        self.peer_id = options.identity.peer_id
        self.counters: Counter[str] = Counter()
        self._options = options
        self._asking = Asking(self._open)
        self._relays = Relays(self, self._open, options.relays)
        self._dialling = Dialling(options.gate, self._connect, self.connections, careful)
        self._tasks: set[asyncio.Task[None]] = set()

    @abstractmethod
    async def _open(self, peer: PeerId, protocol: str, timeout: float = 5.0) -> Stream:
        """A stream to a connected peer. CallFailed where there is none, and nobody is dialled."""

    @abstractmethod
    async def _connect(self, peer: PeerId, addresses: Sequence[str], timeout: float) -> None:
        """Connects to the peer, or raises CallFailed."""

    @abstractmethod
    async def _own_addresses(self) -> set[str]:
        """Multiaddrs where this node listens or is seen, without its id."""

    @abstractmethod
    def _used(self, peer: PeerId) -> None:
        """A call to or from this peer goes on, or went well."""

    async def dial(self, addresses: Sequence[str], timeout: float) -> PeerId:
        return await self._dialling.dial(addresses, timeout)

    async def call(self, peer: PeerId, protocol: str, request: bytes, max_reply: int, timeout: float) -> bytes:
        reply = await self._asking.call(peer, protocol, request, max_reply, timeout)
        self._used(peer)
        return reply

    async def addresses(self) -> list[str]:
        known = await self._own_addresses() | set(self._relays.addresses())
        return [f"{address}/p2p/{self.peer_id}" for address in sorted(known, key=lambda it: (usefulness(it), it))]

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await self._asking.close()

    def _answering(self, handlers: Mapping[str, Handler], limits: Mapping[str, int]) -> Answering:
        def noting(handler: Handler) -> Handler:
            async def answer(caller: Caller, request: bytes) -> bytes:
                self._used(caller.peer)
                return await handler(caller, request)

            return answer

        noted = {protocol: noting(handler) for protocol, handler in handlers.items()}
        return Answering(noted, limits, MAX_INBOUND, self.counters)

    async def _seek_relays(self) -> None:
        """Where this node has no public address of its own."""
        if not any(usefulness(address) == 0 for address in await self.addresses()):
            self._spawn(self._relays.run())

    def _is_kept(self, peer: str, address: str) -> bool:
        """Whether a connection is not hung up on, however many its party has."""
        return self._relays.holds(PeerId(peer)) or self._dialling.leads_to_given(address)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Runs until `close` at the latest."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
