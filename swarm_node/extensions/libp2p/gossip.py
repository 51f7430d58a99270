"""GossipSub on py-libp2p, with the library's ways to end the process closed. Messages are opaque here."""

import logging
from collections.abc import Callable
from contextlib import suppress

import trio
from libp2p.abc import IHost, INetStream
from libp2p.peer.id import ID
from libp2p.pubsub.gossipsub import PROTOCOL_ID_V11, GossipSub
from libp2p.pubsub.pb.rpc_pb2 import Message
from libp2p.pubsub.pubsub import Pubsub
from libp2p.tools.anyio_service import background_trio_service

HEARTBEAT_SECONDS = 1  # the library's own is 120
MAX_RPC_BYTES = 64 * 1024

log = logging.getLogger(__name__)


class GuardedPubsub(Pubsub):
    """One garbage frame, or one message with a garbage key, ends the process that runs the library's own."""

    async def push_msg(self, msg_forwarder: ID, msg: Message) -> None:
        """As the library's, but a message that cannot be read is dropped."""
        try:
            await super().push_msg(msg_forwarder, msg)
        except Exception as error:  # noqa: BLE001  keys and signatures of anybody are parsed below
            log.debug("message dropped: %s", type(error).__name__)

    async def stream_handler(self, stream: INetStream) -> None:
        """As the library's, but a stream that cannot be read is reset, and its peer forgotten."""
        try:
            await super().stream_handler(stream)
        except Exception as error:  # noqa: BLE001  frames of anybody are parsed below
            log.debug("pubsub stream dropped: %s", type(error).__name__)
            with suppress(Exception):
                await stream.reset()
            self._handle_dead_peer(stream.muxed_conn.peer_id)


async def serve(host: IHost, topic: str, receive: Callable[[bytes], None], ready: Callable[[Pubsub], None]) -> None:
    """Take part in `topic` until cancelled; `ready` gets what can publish."""
    # Its limit of 10 messages per second is by forwarder: it would throttle honest relaying.
    router = GossipSub([PROTOCOL_ID_V11], 6, 4, 12, heartbeat_interval=HEARTBEAT_SECONDS, spam_protection_enabled=False)
    pubsub = GuardedPubsub(host, router, max_inbound_rpc_size=MAX_RPC_BYTES, allowed_topics={topic})
    async with background_trio_service(pubsub), background_trio_service(router):
        await pubsub.wait_until_ready()
        subscription = await pubsub.subscribe(topic)
        ready(pubsub)
        while True:
            message = await subscription.get()
            receive(bytes(message.data))
            await trio.lowlevel.checkpoint()
