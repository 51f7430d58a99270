"""Backend on py-libp2p: TCP, noise and yamux in this process, in a trio thread. QUIC stays off: it
resets streams.

It has the same peer id, protocols and framing as the hivemind backend, so that both make one swarm.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import trio
from libp2p.abc import INetStream
from libp2p.crypto.ed25519 import create_new_key_pair
from libp2p.crypto.x25519 import create_new_key_pair as create_x25519_key_pair
from libp2p.custom_types import TProtocol
from libp2p.network.config import ConnectionConfig, RetryConfig
from libp2p.peer.id import ID
from libp2p.peer.peerstore import PeerStore
from libp2p.security.noise.transport import PROTOCOL_ID as NOISE
from libp2p.security.noise.transport import Transport as NoiseTransport
from libp2p.stream_muxer.yamux.yamux import PROTOCOL_ID as YAMUX
from libp2p.stream_muxer.yamux.yamux import Yamux
from libp2p.transport.tcp.tcp import TCP
from libp2p.transport.upgrader import TransportUpgrader
from multiaddr import Multiaddr

from protocol.identity import KEY_HEADER, PUBLIC_KEY_BYTES
from protocol.messages import PeerId
from swarm_node.common.errors import UserError, printable
from swarm_node.network.backend import Caller, CallFailed, Connection, Failure, Handler
from swarm_node.network.transport.backends import HostOptions, check_free, on_interfaces
from swarm_node.network.transport.libp2p.guard import GuardedHost, GuardedSwarm, remote_address
from swarm_node.network.transport.libp2p.relay import STOP, accept, dial_through
from swarm_node.network.transport.libp2p.trio_thread import TrioThread
from swarm_node.network.transport.multiaddr import peer_text, split_peer
from swarm_node.network.transport.streams import Answering, StreamBackend

HANDSHAKE_SECONDS = 5.0
RESET_SECONDS = 1.0

logging.getLogger("libp2p").setLevel(logging.CRITICAL)  # its messages quote peers


class Libp2pBackend(StreamBackend):
    """Carries calls by py-libp2p, in a thread of its own."""

    def __init__(self, options: HostOptions) -> None:
        super().__init__(options)
        self._listen = [address for address in options.listen if "/tcp/" in address]
        self._thread: TrioThread | None = None
        self._host: GuardedHost | None = None
        self._swarm: GuardedSwarm | None = None

    @property
    def thread(self) -> TrioThread:
        if self._thread is None:
            raise RuntimeError("not started")
        return self._thread

    @property
    def swarm(self) -> GuardedSwarm:
        if self._swarm is None:
            raise RuntimeError("not started")
        return self._swarm

    async def start(self, handlers: Mapping[str, Handler], limits: Mapping[str, int]) -> None:
        check_free(self._listen)
        self._thread = TrioThread()
        await self._thread.start()
        try:
            await self._thread.call(
                self._start_host, list(handlers), self._answering(handlers, limits)
            )
        except Exception:
            await self._thread.stop()
            raise
        await self._seek_relays()

    async def _connect(self, peer: PeerId, addresses: Sequence[str], timeout: float) -> None:
        try:
            async with asyncio.timeout(timeout):
                await self.thread.call(self._dial_all, peer, addresses)
        except (TimeoutError, OSError) as error:
            raise CallFailed(Failure.UNREACHABLE, "no answer in time") from error

    async def disconnect(self, peer: PeerId) -> None:
        await self._reach(self.swarm.close_peer, ID.from_base58(peer))

    async def connections(self) -> list[Connection]:
        found: list[Connection] = await self._reach(self._list_connections)
        return found

    async def _own_addresses(self) -> set[str]:
        announced: Sequence[str] = self._options.config.announce
        return set(announced) if announced else await self._reach(self._list_addresses)

    async def wait_closed(self) -> str:
        return f"py-libp2p ended: {await self.thread.wait_ended() or 'stopped'}"

    async def close(self) -> None:
        await super().close()
        if self._thread is not None:
            await self._thread.stop()

    async def open_stream(self, peer: PeerId, protocol: str, timeout: float = 5.0) -> "TrioStream":
        """A stream to a connected peer. Dials nobody: CallFailed where the peer is not
        connected.
        """
        try:
            async with asyncio.timeout(timeout):
                return TrioStream(
                    self.thread, await self.thread.call(self._new_stream, peer, protocol)
                )
        except OSError as error:  # TimeoutError is one
            raise CallFailed(Failure.UNREACHABLE) from error

    def _used(self, peer: PeerId) -> None:
        self.thread.begin(self._note_use, peer)

    async def _reach(self, work: Callable[..., Awaitable[Any]], *args: object) -> Any:
        try:
            async with asyncio.timeout(HANDSHAKE_SECONDS):
                return await self.thread.call(work, *args)
        except OSError as error:  # TimeoutError is one
            raise CallFailed(Failure.UNREACHABLE, str(error)) from error

    async def _serve(
        self, answering: Answering, stream: INetStream, caller: Caller, protocol: str
    ) -> None:
        pipe = TrioStream(self.thread, stream)
        if answering.admits(caller, asyncio.get_running_loop().time()):
            await answering.serve(pipe, caller, protocol)
        else:
            await pipe.close()

    # What follows runs in trio.

    async def _start_host(self, protocols: Sequence[str], answering: Answering) -> None:
        started = trio.Event()
        failed: list[Exception] = []
        self._swarm = self._make_swarm()
        self._host = host = GuardedHost(self._swarm, negotiate_timeout=int(HANDSHAKE_SECONDS))
        host.set_stream_handler(TProtocol(STOP), lambda stream: accept(self.swarm, stream))
        for protocol in protocols:
            host.set_stream_handler(TProtocol(protocol), self._inbound(protocol, answering))

        async def run() -> None:
            try:
                async with host.run([Multiaddr(address) for address in self._listen]):
                    if not self.swarm.listeners:
                        raise UserError(
                            f"cannot listen on {' and '.join(self._listen)}: is a port taken? If "
                            "not, try --network.backend hivemind"
                        )
                    started.set()
                    await trio.sleep_forever()
            except Exception as error:
                if started.is_set():
                    raise  # the host has died by itself: `wait_closed` says so
                failed.append(error)
                started.set()

        self.thread.begin(run)
        await started.wait()
        if failed:
            raise failed[0]

    def _make_swarm(self) -> GuardedSwarm:
        key_bytes = self._options.identity.key_bytes()
        keys = create_new_key_pair(key_bytes[len(KEY_HEADER) : -PUBLIC_KEY_BYTES])
        local_id = ID.from_pubkey(keys.public_key)
        peerstore = PeerStore()
        peerstore.add_key_pair(local_id, keys)
        # Noise alone: the library's defaults include plaintext, which proves no identity
        upgrader = TransportUpgrader(
            {NOISE: NoiseTransport(keys, noise_privkey=create_x25519_key_pair().private_key)},
            {TProtocol(YAMUX): Yamux},
            negotiate_timeout=int(HANDSHAKE_SECONDS),
        )
        config = ConnectionConfig(
            min_connections=0,
            low_watermark=0,  # it must not dial on its own
            # It must not prune on its own: the census does
            high_watermark=10 * self._options.max_connections,
            max_connections=10 * self._options.max_connections,
            dial_timeout=HANDSHAKE_SECONDS,
            inbound_upgrade_timeout=HANDSHAKE_SECONDS,
            outbound_upgrade_timeout=HANDSHAKE_SECONDS,
            inbound_stream_protocol_negotiation_timeout=HANDSHAKE_SECONDS,
            outbound_stream_protocol_negotiation_timeout=HANDSHAKE_SECONDS,
        )
        retry = RetryConfig(max_retries=0)
        return GuardedSwarm(
            local_id,
            peerstore,
            upgrader,
            [TCP()],
            retry_config=retry,
            connection_config=config,
            max_peers=self._options.max_connections,
            is_kept=lambda peer, address: self._is_kept(str(peer), address),
            counters=self.counters,
        )

    def _inbound(
        self, protocol: str, answering: Answering
    ) -> Callable[[INetStream], Awaitable[None]]:
        async def handle(stream: INetStream) -> None:
            caller = Caller(
                peer_text(stream.muxed_conn.peer_id.to_bytes()), remote_address(stream.muxed_conn)
            )
            await self.thread.run_in_asyncio(
                lambda: self._serve(answering, stream, caller, protocol)
            )

        return handle

    async def _dial_all(self, peer: PeerId, addresses: Sequence[str]) -> None:
        """CallFailed unless one of the known addresses leads to the peer; they are dialled side by
        side.
        """
        target = ID.from_base58(peer)
        if self.swarm.get_connections(target):
            return
        reasons: list[str] = []

        async def attempt(address: str) -> None:
            try:
                await self._dial_one(address, target)
            except Exception as error:  # noqa: BLE001  the library raises all kinds of things for a dial that fails
                reasons.append(str(error.__cause__ or error))
            else:
                nursery.cancel_scope.cancel()

        async with trio.open_nursery() as nursery:
            for address in addresses:
                if "/tcp/" in address:
                    nursery.start_soon(attempt, address)
        if not self.swarm.get_connections(target):
            raise CallFailed(
                Failure.UNREACHABLE, printable(ascii("; ".join(reasons) or "no TCP address")[1:-1])
            )

    async def _dial_one(self, address: str, target: ID) -> None:
        relay, through, _ = address.partition("/p2p-circuit")
        if not through:
            await self.swarm.dial_addr(Multiaddr(address), target)
            return
        assert self._host is not None
        relay_id = ID.from_base58(split_peer(relay)[1])
        if not self.swarm.get_connections(relay_id):
            await self.swarm.dial_addr(Multiaddr(relay), relay_id)
        await dial_through(self._host, self.swarm, relay_id, target)

    async def _new_stream(self, peer: PeerId, protocol: str) -> INetStream:
        assert self._host is not None
        # Else the library would dial addresses it was told
        if not self.swarm.get_connections(ID.from_base58(peer)):
            raise CallFailed(Failure.UNREACHABLE, "not connected")
        try:
            return await self._host.new_stream(ID.from_base58(peer), [TProtocol(protocol)])
        except Exception as error:
            reason = f"{error} {error.__cause__ or ''}"
            if "not supported" in reason:
                raise CallFailed(Failure.UNSUPPORTED) from error
            raise CallFailed(Failure.CLOSED, type(error).__name__) from error

    async def _list_connections(self) -> list[Connection]:
        found = []
        for peer in self.swarm.connections:
            with suppress(ValueError, IndexError):
                address = remote_address(self.swarm.get_connections(peer)[0])
                found.append(
                    Connection(
                        peer_text(peer.to_bytes()), address, relayed="/p2p-circuit" in address
                    )
                )
        return found

    async def _list_addresses(self) -> set[str]:
        listening = [
            str(address) for it in self.swarm.listeners.values() for address in it.get_addrs()
        ]
        return {address for bound in listening for address in on_interfaces(bound)}

    async def _note_use(self, peer: PeerId) -> None:
        self.swarm.census.was_useful(ID.from_base58(peer))


class TrioStream:
    """A libp2p stream for asyncio."""

    def __init__(self, thread: TrioThread, stream: INetStream) -> None:
        self._thread, self._stream = thread, stream

    async def read(self, size: int) -> bytes:
        return await self._thread.call(self._read, size)

    async def write(self, data: bytes) -> None:
        await self._thread.call(self._write, data)

    async def close(self) -> None:
        self._thread.begin(self._reset)  # the side that closes has what it wanted, or gives up

    async def _read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            try:
                chunk = await self._stream.read(size - len(data))
            except Exception as error:
                raise EOFError from error
            if not chunk:
                raise EOFError
            data += chunk
        return bytes(data)

    async def _write(self, data: bytes) -> None:
        try:
            await self._stream.write(data)
        except Exception as error:
            raise EOFError from error

    async def _reset(self) -> None:
        with trio.move_on_after(RESET_SECONDS), suppress(Exception):
            await self._stream.reset()
