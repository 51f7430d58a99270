"""Backend on hivemind's go-libp2p daemon: TCP and QUIC, relays, connection manager, all in a
process of its own.
"""

import asyncio
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from protocol.identity import Identity
from protocol.limits import MAX_PUNCH_BYTES
from protocol.messages import PeerId
from protocol.wire import PUNCH
from swarm_node.common.errors import UserError, printable
from swarm_node.common.lru import Lru
from swarm_node.network.backend import Backend, Caller, CallFailed, Connection, Failure, Handler
from swarm_node.network.parties import Connected
from swarm_node.network.transport.backends import HostOptions, check_free, own_loopback
from swarm_node.network.transport.dialling import GATED_SECONDS, DialFailed
from swarm_node.network.transport.gate import QUIC_BYTES, TCP_BYTES
from swarm_node.network.transport.multiaddr import (
    from_bytes,
    peer_bytes,
    peer_text,
    split_peer,
    to_bytes,
)
from swarm_node.network.transport.p2pd import (
    RELAY_BYTES,
    Daemon,
    DaemonError,
    pb,
    program,
    request_of,
    whole_seconds,
)
from swarm_node.network.transport.punching import Punching
from swarm_node.network.transport.relays import HOP, RESERVE_SECONDS, reserve
from swarm_node.network.transport.streams import StreamBackend
from swarm_node.settings import NetworkConfig

RELAY_STARTS = 6
USE_SECONDS = 30.0  # between two tags of a peer: p2pd forgets them when the connection ends
USE_WEIGHT = 100
KNOWN_PEERS = 1024
GRACE_SECONDS = 1.0  # so that p2pd ends a dial by itself: only then it says what it tried
AT_ONCE = 8  # addresses of a peer that p2pd dials at the same time
# At least, between two checks for parties with too many connections; each uses a list made anyway
LOOK_SECONDS = 1.0
LONGEST_LOOK = 3.5  # ... at most; the exchange lists connections every 3 s
SILENT_SECONDS = 20.0  # if all calls to a peer time out for so long, its connection is closed


class Pipe:
    """A stream: the unix connection that the daemon copies to and from a libp2p stream."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def read(self, size: int) -> bytes:
        return await self._reader.readexactly(size)

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def close(self) -> None:
        # Anything but a full close is of no use: on a half-close the daemon ends both directions.
        self._writer.close()


class HivemindBackend(StreamBackend):
    """Carries calls by p2pd, the go-libp2p daemon of hivemind."""

    def __init__(self, options: HostOptions) -> None:
        super().__init__(options, careful=True)
        self._daemon: Daemon | None = None
        self._punching = Punching(self)
        self._connected: Connected[str] = Connected(options.max_connections)
        self._looked = 0.0
        self._hanging_up: asyncio.Task[None] | None = None
        # When p2pd was last told that a peer is useful
        self._useful: Lru[PeerId, float] = Lru(KNOWN_PEERS)
        self._silent: Lru[PeerId, float] = Lru(KNOWN_PEERS)  # since when every call has timed out

    @property
    def daemon(self) -> Daemon:
        if self._daemon is None:
            raise RuntimeError("not started")
        return self._daemon

    async def start(self, handlers: Mapping[str, Handler], limits: Mapping[str, int]) -> None:
        check_free(self._options.listen)
        self._daemon = await self._start_daemon()
        if not self._options.bootstrap:
            handlers = {**handlers, PUNCH: self._punching.answer}
            limits = {**limits, PUNCH: MAX_PUNCH_BYTES}
            self.spawn(self._punching.run())
        answering = self._answering(handlers, limits)
        loop = asyncio.get_running_loop()

        def welcome(info: Any) -> bool:
            caller = _caller(info.peer, info.addr)
            return caller is not None and answering.admits(caller, loop.time())

        async def serve(
            info: Any, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
        ) -> None:
            if (caller := _caller(info.peer, info.addr)) is not None:
                await answering.serve(Pipe(reader, writer), caller, info.proto)

        if handlers:
            await self._daemon.listen(list(handlers), welcome, serve)
        self.spawn(self._look_again())
        await self._seek_relays()

    async def _start_daemon(self) -> Daemon:
        """A running daemon; for a bootstrap node, one that relays more than 128 KiB.

        p2pd starts two relay services on the same protocol, one with the limits of its flags and
        one with libp2p's defaults; the last one serves. With one thread it is the right one in 23
        of 24 starts, so each start is tested.
        """
        for _ in range(RELAY_STARTS):
            daemon = await Daemon.start(self._options)
            if not self._options.bootstrap or await _relays_enough(daemon, self._options):
                return daemon
            await daemon.stop()
        raise UserError("the network daemon p2pd did not start as a relay; start the node again")

    async def dial(self, addresses: Sequence[str], timeout: float) -> PeerId:
        peer = await super().dial(addresses, timeout)
        self._punching.dialled(peer, addresses)
        return peer

    async def _connect(self, peer: PeerId, addresses: Sequence[str], timeout: float) -> None:
        """p2pd also dials addresses that the peer's daemon told it when they were connected, eight
        at a time.
        """
        packed = [to_bytes(split_peer(address)[0]) for address in addresses]
        target = pb().ConnectRequest(
            peer=peer_bytes(peer), addrs=packed, timeout=whole_seconds(timeout)
        )
        try:
            await self.daemon.request(
                request_of("CONNECT", connect=target), timeout + GRACE_SECONDS
            )
        except (DaemonError, EOFError, OSError) as error:
            further = _further(str(error), addresses, timeout)
            raise DialFailed(Failure.UNREACHABLE, _detail(error), further) from error

    async def call(
        self, peer: PeerId, protocol: str, request: bytes, max_reply: int, timeout: float
    ) -> bytes:
        try:
            reply = await self._call(peer, protocol, request, max_reply, timeout)
        except CallFailed as error:
            if error.failure == Failure.TIMEOUT:
                await self._note_silence(peer)
            else:
                self._silent.pop(peer, None)
            raise
        self._silent.pop(peer, None)
        await self._note_use(peer)
        return reply

    async def _call(
        self, peer: PeerId, protocol: str, request: bytes, max_reply: int, timeout: float
    ) -> bytes:
        """Calls once more, if the call failed because the connection was changed for a direct
        one.
        """
        deadline = asyncio.get_running_loop().time() + timeout
        try:
            return await super().call(peer, protocol, request, max_reply, timeout)
        except CallFailed as error:
            lost = error.failure in (Failure.UNREACHABLE, Failure.CLOSED)
            if not lost or not await self._punching.settled(peer):
                raise
        left = deadline - asyncio.get_running_loop().time()
        return await super().call(peer, protocol, request, max_reply, left)

    async def disconnect(self, peer: PeerId) -> None:
        await self._disconnect(peer_bytes(peer))

    async def _disconnect(self, peer: bytes) -> None:
        await self._reach("DISCONNECT", disconnect=pb().DisconnectRequest(peer=peer))

    async def connections(self) -> list[Connection]:
        response = await self._reach("LIST_PEERS")
        self._look(response.peers)
        found = []
        for info in response.peers:
            if (peer := _peer(info.id)) is not None:
                address = _end(info)
                found.append(Connection(peer, address, relayed="/p2p-circuit" in address))
        return found

    async def _own_addresses(self) -> set[str]:
        response = await self._reach("IDENTIFY")
        return {text for data in response.identify.addrs if (text := _text(data))}

    async def wait_closed(self) -> str:
        return await self.daemon.wait_closed()

    async def close(self) -> None:
        await super().close()
        if self._daemon is not None:
            await self._daemon.stop()

    async def _look_again(self) -> None:
        while True:
            await asyncio.sleep(
                max(0.0, self._looked + LONGEST_LOOK - asyncio.get_running_loop().time())
            )
            with suppress(CallFailed):  # the daemon is gone: `wait_closed` says so
                await self.connections()

    def _look(self, peers: Sequence[Any]) -> None:
        """Hangs up on peers of parties that hold too many of all connections, the longest unused
        first: p2pd itself bounds only the sum of all connections, not those of one peer.
        """
        now = asyncio.get_running_loop().time()
        if now - self._looked < LOOK_SECONDS or (
            self._hanging_up is not None and not self._hanging_up.done()
        ):
            return
        self._looked = now
        # p2pd also lets in keys of other kinds
        names = {_peer(info.id) or info.id.hex(): info.id for info in peers}
        ends = ((_peer(info.id) or info.id.hex(), _end(info)) for info in peers)
        counted = [(name, end) for name, end in ends if not self._is_kept(name, end)]
        if surplus := self._connected.surplus(counted, now):
            self._hanging_up = self.spawn(self._hang_up([names[name] for name in surplus]))

    async def _hang_up(self, peers: Sequence[bytes]) -> None:
        for peer in peers:
            with suppress(CallFailed):
                await self._disconnect(peer)
                self.counters["hung up: too many connections of one party"] += 1

    def _used(self, peer: PeerId) -> None:
        self._connected.used(peer, asyncio.get_running_loop().time())

    async def _note_silence(self, peer: PeerId) -> None:
        """Closes a connection on which every call times out; the next call makes a new one. p2pd's
        QUIC loses window with each large reply that is given up, until nothing passes for good on a
        connection that looks alive.
        """
        now = asyncio.get_running_loop().time()
        if now - self._silent.setdefault(peer, now) >= SILENT_SECONDS:
            del self._silent[peer]
            with suppress(CallFailed):
                await self.disconnect(peer)

    async def _note_use(self, peer: PeerId) -> None:
        """Tells p2pd of a useful peer: its connection manager hangs up on idle peers before useful
        ones.
        """
        now = asyncio.get_running_loop().time()
        if now - self._useful.get(peer, -USE_SECONDS) < USE_SECONDS:
            return
        self._useful[peer] = now
        kind = pb().ConnManagerRequest
        tag = kind(type=kind.TAG_PEER, peer=peer_bytes(peer), tag="useful", weight=USE_WEIGHT)
        with suppress(CallFailed):
            await self._reach("CONNMANAGER", connManager=tag)

    async def open_stream(self, peer: PeerId, protocol: str, timeout: float = 5.0) -> Pipe:
        """A stream to a connected peer. Dials nobody: CallFailed where the peer is not
        connected.
        """
        # Else p2pd would dial it, past the gate
        if all(each.peer != peer for each in await self.connections()):
            raise CallFailed(Failure.UNREACHABLE, "not connected")
        try:
            return Pipe(*await self.daemon.open_stream(peer_bytes(peer), protocol, timeout))
        except (DaemonError, EOFError, OSError) as error:  # TimeoutError is an OSError
            raise CallFailed(_why(error), _detail(error)) from error

    async def _reach(self, kind: str, **fields: Any) -> Any:
        """The daemon's answer to a request of this kind."""
        try:
            return await self.daemon.request(request_of(kind, **fields))
        except (DaemonError, EOFError, OSError) as error:
            raise CallFailed(Failure.UNREACHABLE, _detail(error)) from error


async def _relays_enough(daemon: Daemon, options: HostOptions) -> bool:
    """Whether a daemon grants enough to a peer that asks for a reservation. True where it cannot be
    asked.
    """
    beside = replace(
        options, identity=Identity.create(), listen=[f"{own_loopback()}/tcp/0"], bootstrap=False
    )
    asker = await Daemon.start(beside)
    try:
        own = (await daemon.request(request_of("IDENTIFY"))).identify
        target = pb().ConnectRequest(
            peer=own.id, addrs=own.addrs, timeout=whole_seconds(RESERVE_SECONDS)
        )
        await asker.request(request_of("CONNECT", connect=target), RESERVE_SECONDS)
        stream = Pipe(*await asker.open_stream(own.id, HOP, RESERVE_SECONDS))
        async with asyncio.timeout(RESERVE_SECONDS):
            return await reserve(stream) >= RELAY_BYTES
    except (DaemonError, EOFError, OSError):
        return True
    finally:
        await asker.stop()


def _further(text: str, addresses: Sequence[str], timeout: float) -> int:
    """Bytes of a failed dial that went to other addresses, by p2pd's error. A dial that ran out of
    time lists none: p2pd gives each address 5 s, so there were more addresses than it tries at
    once.
    """
    if "deadline exceeded" in text and timeout >= GATED_SECONDS:
        return 2 * AT_ONCE * QUIC_BYTES
    chosen = {split_peer(address)[0] for address in addresses}
    others = [
        each for each in re.findall(r"\* \[(/[^]]+)\] (?!dial backoff)", text) if each not in chosen
    ]
    return sum(QUIC_BYTES if "/udp/" in each else TCP_BYTES for each in others)


@lru_cache(maxsize=KNOWN_PEERS)  # asked for every stream of a flood
def _caller(peer: bytes, address: bytes) -> Caller | None:
    """Who opened a stream; None for a key of another kind, which no node of ours has."""
    known = _peer(peer)
    return None if known is None else Caller(known, _text(address))


@lru_cache(maxsize=KNOWN_PEERS)  # and for every connection, whenever they are listed
def _peer(data: bytes) -> PeerId | None:
    """The peer id; None for a key of another kind, which no node of ours has."""
    try:
        return peer_text(data)
    except ValueError:
        return None


def _end(info: Any) -> str:
    """Where the other end of a listed connection is."""
    return _text(info.addrs[0]) if info.addrs else ""


@lru_cache(maxsize=KNOWN_PEERS)
def _text(data: bytes) -> str:
    """An address the daemon reports; "" for those of transports that this node does not use."""
    try:
        return from_bytes(data)
    except ValueError:
        return ""


def _why(error: Exception) -> Failure:
    text = str(error)
    if "protocols not supported" in text:
        return Failure.UNSUPPORTED
    if "negotiate protocol" in text:  # connected, but no answer about the protocol
        return Failure.TIMEOUT
    return Failure.UNREACHABLE


def _detail(error: Exception) -> str:
    """One printable line: the daemon's messages quote what peers sent."""
    text = (
        "no answer in time"
        if isinstance(error, TimeoutError)
        else str(error) or type(error).__name__
    )
    return printable(ascii(" ".join(text.split()))[1:-1], 400)


class Hivemind:
    """Makes backends that drive p2pd."""

    def check_installed(self) -> None:
        if find_spec("hivemind") is None:
            raise UserError(
                "hivemind is not installed; run: pip install hivemind, or choose another backend"
            )

    def prepare(self, config: NetworkConfig) -> Path | None:
        pb()
        return program(config.p2pd)

    def make(self, options: HostOptions) -> Backend:
        return HivemindBackend(options)


HIVEMIND = Hivemind()
