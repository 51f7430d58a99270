"""Circuit relay v2 on py-libp2p: connections through a relay, both ways. Reservations are made in
relays.py.

The library has a transport for this, which wants a reservation for every dial and keeps addresses
of its own. So this module makes the two exchanges of the specification itself, with the library's
messages.
"""

import trio
from libp2p.abc import INetStream
from libp2p.connection_types import ConnectionType
from libp2p.custom_types import TProtocol
from libp2p.host.basic_host import BasicHost
from libp2p.network.connection.raw_connection import RawConnection
from libp2p.network.swarm import Swarm
from libp2p.peer.id import ID
from libp2p.relay.circuit_v2.pb.circuit_pb2 import HopMessage, PeerId, Status, StopMessage
from libp2p.relay.circuit_v2.utils import read_delimited_msg, write_delimited_msg
from libp2p.stream_muxer.yamux.yamux import Yamux
from multiaddr import Multiaddr

from swarm_node.network.transport.libp2p.guard import remote_address
from swarm_node.network.transport.relays import HOP

STOP = "/libp2p/circuit/relay/0.2.0/stop"
EXCHANGE_SECONDS = 10.0


class RelayRefused(Exception):
    """The relay did not connect the two: no reservation, or a limit of its own."""


async def dial_through(host: BasicHost, swarm: Swarm, relay: ID, target: ID) -> None:
    """Connect to `target` through a relay that is connected already."""
    stream = await host.new_stream(relay, [TProtocol(HOP)])
    try:
        with trio.fail_after(EXCHANGE_SECONDS):
            await write_delimited_msg(
                stream, HopMessage(type=HopMessage.CONNECT, peer=PeerId(id=target.to_bytes()))
            )
            answer = await read_delimited_msg(stream, HopMessage)
        if answer.type != HopMessage.STATUS or answer.status != Status.OK:
            raise RelayRefused(f"relay refused, status {answer.status}")
        await swarm.upgrade_outbound_raw_conn(_through(stream, relay, initiator=True), target)
    except BaseException:
        await stream.reset()
        raise


async def accept(swarm: Swarm, stream: INetStream) -> None:
    """Serve a stop stream, over which a relay connects another peer to us. Returns when that
    connection ends.
    """
    with trio.fail_after(EXCHANGE_SECONDS):
        message = await read_delimited_msg(stream, StopMessage)
        accepted = message.type == StopMessage.CONNECT
        status = Status.OK if accepted else Status.UNEXPECTED_MESSAGE
        await write_delimited_msg(stream, StopMessage(type=StopMessage.STATUS, status=status))
    if accepted:
        raw = _through(stream, stream.muxed_conn.peer_id, initiator=False)
        muxed = await swarm.upgrade_inbound_raw_conn(raw, Multiaddr("/p2p-circuit"))
        if isinstance(muxed, Yamux):
            await muxed.event_closed.wait()


def _through(stream: INetStream, relay: ID, initiator: bool) -> RawConnection:
    # As p2pd writes it
    address = Multiaddr(f"{remote_address(stream.muxed_conn)}/p2p/{relay}/p2p-circuit")
    return RawConnection(stream, initiator, ConnectionType.RELAYED, [address])
