"""Guards for py-libp2p 0.8.1: what one peer sends must not end the process, fill its memory or make
it deaf.

Each override names the fault it answers; all were found by reading the source or by tests that a
bare host fails.
"""

import logging
from collections import Counter, OrderedDict
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import multiaddr
import trio
from libp2p.abc import IMuxedStream, INetConn, INetStream, INetwork, INotifee
from libp2p.host.basic_host import BasicHost
from libp2p.io.abc import ReadWriteCloser
from libp2p.network.auto_connector import AutoConnector
from libp2p.network.connection.raw_connection import RawConnection
from libp2p.network.connection.swarm_connection import SwarmConn
from libp2p.network.swarm import Swarm
from libp2p.peer.id import ID
from libp2p.stream_muxer.exceptions import MuxedStreamError
from libp2p.stream_muxer.yamux.yamux import Yamux

from swarm_node.network.parties import Connected, groups_of, share_of

MAX_HANDSHAKES = 64  # inbound connections whose peer has not proven its identity yet
# To write one frame and those before it; after that, a peer that does not read is hung up on
WRITE_SECONDS = 8.0
MAX_STREAMS = 256  # open streams of one connection
# Bytes received on one connection and not read yet: eight of the largest replies
MAX_BUFFERED = 4 * 1024 * 1024
FORGET_SECONDS = 1e6  # any time beyond the library's minute
MAX_FRAME = 256 * 1024  # bytes of one yamux frame: the window that a new stream starts with

# Peer, address of its connection: whether to keep it, however many its party has
IsKept = Callable[[ID, str], bool]

log = logging.getLogger(__name__)


class GuardedHost(BasicHost):
    """An exception in the handling of one stream ends that stream; in the library it ends the
    process.
    """

    async def _swarm_stream_handler(self, net_stream: INetStream) -> None:
        try:
            await super()._swarm_stream_handler(net_stream)
        except Exception as error:  # noqa: BLE001  a peer's bytes reach every parser of the library from here
            log.debug("stream dropped: %s", type(error).__name__)
            with suppress(Exception):
                await net_stream.reset()


class GuardedSwarm(Swarm):
    """Keeps room for honest peers: when it is full, the least useful peer makes room, not the
    newest.

    The class of py-libp2p has three faults that this one answers. It counts an inbound connection
    until it is shut down itself, and not until the connection ends, so that after 250 connections
    it accepts no more. When it is full it refuses newcomers, so that the peers that came first
    stay. And its table keeps a connection for a tenth of a second and more after the connection has
    ended.
    """

    def __init__(
        self,
        *args: object,
        max_peers: int,
        is_kept: IsKept,
        counters: Counter[str],
        **options: object,
    ) -> None:
        super().__init__(*args, **options)  # type: ignore[arg-type]
        self.auto_connector = NoAutoConnector(self)
        self.census = Census(self, max_peers, is_kept, counters)
        self.register_notifee(self.census)
        # Oldest first; its parties
        self._handshakes: OrderedDict[trio.CancelScope, tuple[str, ...]] = OrderedDict()

    async def _handle_inbound_connection(
        self, read_write_closer: ReadWriteCloser, maddr: multiaddr.Multiaddr
    ) -> None:
        raw = RawConnection(read_write_closer, False)
        scope = trio.CancelScope()
        self._handshakes[scope] = groups_of(remote_address(raw))
        for party in self._handshakes[scope]:
            same = [each for each, groups in self._handshakes.items() if party in groups]
            if len(same) > share_of(MAX_HANDSHAKES):
                self._give_up(same[0])
        if len(self._handshakes) > MAX_HANDSHAKES:
            self._give_up(next(iter(self._handshakes)))
        muxed = None
        try:
            with scope:
                muxed = await self.upgrade_inbound_raw_conn(raw, maddr)
        except Exception as error:  # noqa: BLE001  handshakes parse what anybody sends
            log.debug("handshake failed: %s", type(error).__name__)
        finally:
            self._handshakes.pop(scope, None)
        if isinstance(muxed, Yamux):
            await muxed.event_closed.wait()  # the socket is closed when this returns

    def _give_up(self, handshake: trio.CancelScope) -> None:
        handshake.cancel()
        del self._handshakes[handshake]

    def get_connections(self, peer_id: ID | None = None) -> list[INetConn]:
        """Returns only live connections. If a dial took an ended one for a live one, its caller
        would have none.
        """
        return [connection for connection in super().get_connections(peer_id) if _lives(connection)]

    async def close_peer(self, peer_id: ID) -> None:
        """Ends the connections that exist now; the library would also forget those that the peer
        makes meanwhile.

        The call may be cancelled: a close that is given up would leave a socket that nobody knows.
        """
        with trio.CancelScope(shield=True):
            for connection in self.connections.pop(peer_id, []):
                with suppress(Exception):
                    await connection.close()


def remote_address(connection: Any) -> str:
    """Multiaddr of the other end, "" where it is not known; where a relay is between, the address
    leads through it.
    """
    addresses = connection.get_transport_addresses()
    return str(addresses[0]) if addresses else ""


def _lives(connection: INetConn) -> bool:
    muxed = connection.muxed_conn
    assert isinstance(muxed, Yamux)  # the only muxer that is offered
    return not (connection.is_closed or muxed.event_shutting_down.is_set())


class NoAutoConnector(AutoConnector):
    """Stops the library from dialling every address that any peer has told it, whatever its
    watermarks say.
    """

    async def maybe_connect(self) -> None:
        """Does nothing: whom to connect to is not the library's choice."""

    async def run_background_task(self, nursery: trio.Nursery) -> None:
        """Does nothing."""


class Census(INotifee):
    """Knows who is connected and how useful each peer is; hangs up on the least useful when there
    are too many.
    """

    def __init__(
        self, swarm: Swarm, max_peers: int, is_kept: IsKept, counters: Counter[str]
    ) -> None:
        self._swarm = swarm
        self._max_peers = max_peers
        self._is_kept, self._counters = is_kept, counters
        self._shares: Connected[ID] = Connected(max_peers)
        self._useful: dict[ID, float] = {}  # when a call to or from a connected peer last went well

    def was_useful(self, peer: ID) -> None:
        """Notes that a call with this peer went well."""
        if peer in self._swarm.connections:
            self._useful[peer] = trio.current_time()
            self._shares.used(peer, trio.current_time())

    async def connected(self, network: INetwork, conn: INetConn) -> None:
        """Closes what one party has beyond its share, then peers beyond the limit: the longest
        useless first.
        """
        ends = [
            (each.muxed_conn.peer_id, remote_address(each))
            for each in self._swarm.get_connections()
        ]
        counted = [(peer, address) for peer, address in ends if not self._is_kept(peer, address)]
        for peer in self._shares.surplus(counted, trio.current_time()):
            self._counters["hung up: too many connections of one party"] += 1
            await self._swarm.close_peer(peer)
        peers = self._swarm.connections
        while len(peers) > self._max_peers:
            # Of equals: oldest
            await self._swarm.close_peer(min(peers, key=lambda peer: self._useful.get(peer, 0.0)))

    async def disconnected(self, network: INetwork, conn: INetConn) -> None:
        """Forgets a peer whose last connection is gone."""
        peer = conn.muxed_conn.peer_id
        if peer not in self._swarm.connections:
            self._useful.pop(peer, None)
            # Else every identity that ever came would be kept
            self._swarm.peerstore.clear_peerdata(peer)

    async def opened_stream(self, network: INetwork, stream: INetStream) -> None:
        """Does nothing; the library asks for it."""

    async def closed_stream(self, network: INetwork, stream: INetStream) -> None:
        """Does nothing; the library asks for it."""

    async def listen(self, network: INetwork, multiaddr: multiaddr.Multiaddr) -> None:
        """Does nothing; the library asks for it."""

    async def listen_close(self, network: INetwork, multiaddr: multiaddr.Multiaddr) -> None:
        """Does nothing; the library asks for it."""


# The library makes connections of its own classes, whatever it is given: three of their methods are
# replaced.

_handle_stream = SwarmConn._handle_muxed_stream
_read_body = Yamux._read_data_body
_write_frame = Yamux._write_frame


async def _handle_stream_guarded(self: SwarmConn, muxed_stream: IMuxedStream) -> None:
    """Bounds streams before they cost more. The code around the host's handler may raise too, and
    is guarded here.
    """
    try:
        if len(self.streams) >= MAX_STREAMS:
            await self.close()
        else:
            await _handle_stream(self, muxed_stream)
    except Exception as error:  # noqa: BLE001  one connection's trouble must not reach the nursery of all of them
        log.debug("stream dropped: %s", type(error).__name__)


async def _read_body_bounded(self: Yamux, length: int) -> bytes:
    """Bounds what a peer may make us keep: the library notices that a peer exceeds its window, and
    goes on.
    """
    if _buffered(self) + length > MAX_BUFFERED:
        # What came on streams that have ended is kept for a minute otherwise
        async with self.streams_lock:
            self._sweep_stale_streams(trio.current_time() + FORGET_SECONDS)
    if length > MAX_FRAME or _buffered(self) + length > MAX_BUFFERED:
        raise trio.TooSlowError  # the one exception on which every caller hangs up
    return await _read_body(self, length)


def _buffered(connection: Yamux) -> int:
    return sum(map(len, connection.stream_buffers.values()))


async def _write_whole(self: Yamux, data: bytes) -> None:
    """Writes a frame whole, or ends the connection: in the library a call that is given up midway
    leaves half a frame on the wire, and all other calls on that connection fail.
    """
    with trio.CancelScope(deadline=trio.current_time() + WRITE_SECONDS, shield=True) as scope:
        await _write_frame(self, data)
    if scope.cancelled_caught:
        await self.secured_conn.close()
        raise MuxedStreamError("the peer does not read")
    await trio.lowlevel.checkpoint_if_cancelled()


SwarmConn._handle_muxed_stream = _handle_stream_guarded  # type: ignore[method-assign]
Yamux._read_data_body = _read_body_bounded  # type: ignore[method-assign]
Yamux._write_frame = _write_whole  # type: ignore[method-assign]
