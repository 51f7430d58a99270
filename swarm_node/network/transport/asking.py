"""The calling side of streams, the same for both libraries: one call after another on streams that stay open a while.

Opening a stream costs three quarters of a call: the daemons at both ends negotiate a protocol and connect to a socket
each. A peer that is called often, as in short rounds, is called on the stream of last time.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

from protocol.messages import PeerId
from swarm_node.network.backend import CallFailed, Failure
from swarm_node.network.transport.streams import LENGTH_BYTES, Stream, frame

KEPT_SECONDS = 20.0  # an unused stream is closed after this; the other side waits longer (streams.IDLE_SECONDS)
MAX_KEPT = 64  # unused streams; the one that was used last longest ago makes room

Open = Callable[[PeerId, str, float], Awaitable[Stream]]  # peer, protocol, seconds; raises CallFailed only


@dataclass(frozen=True, slots=True)
class _Kept:
    stream: Stream
    since: float  # seconds


class Asking:
    """Calls over streams that `open` makes. Belongs to one asyncio loop."""

    def __init__(self, open: Open) -> None:
        self._open = open
        self._kept: dict[tuple[PeerId, str], _Kept] = {}  # unused; the longest unused first

    async def call(self, peer: PeerId, protocol: str, request: bytes, max_reply: int, timeout: float) -> bytes:
        """The reply, at most `max_reply` bytes, within `timeout` seconds. CallFailed for whatever the peer does."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        await self._tidy(loop.time() - KEPT_SECONDS)
        if (kept := self._kept.pop((peer, protocol), None)) is not None:
            try:
                return await self._ask(kept.stream, (peer, protocol), request, max_reply, deadline)
            except CallFailed as error:
                if error.failure != Failure.CLOSED:
                    raise  # else the other side had no more use for the stream: that is no answer to this call
        stream = await self._open(peer, protocol, deadline - loop.time())
        return await self._ask(stream, (peer, protocol), request, max_reply, deadline)

    async def close(self) -> None:
        await self._tidy(float("inf"))

    async def _ask(
        self, stream: Stream, key: tuple[PeerId, str], request: bytes, max_reply: int, deadline: float
    ) -> bytes:
        """One call. Only a stream on which all went well is kept."""
        try:
            async with asyncio.timeout_at(deadline):
                reply = await ask(stream, request, max_reply)
        except BaseException as error:
            await stream.close()
            if isinstance(error, TimeoutError):
                raise CallFailed(Failure.TIMEOUT) from error
            raise
        await self._keep(key, stream)
        return reply

    async def _keep(self, key: tuple[PeerId, str], stream: Stream) -> None:
        before = self._kept.pop(key, None)  # of a call to the same peer that went on beside this one
        self._kept[key] = _Kept(stream, asyncio.get_running_loop().time())
        if before is None and len(self._kept) > MAX_KEPT:
            before = self._kept.pop(next(iter(self._kept)))
        if before is not None:
            await before.stream.close()

    async def _tidy(self, before: float) -> None:
        """Close what was used last before then."""
        while self._kept:
            key, kept = next(iter(self._kept.items()))
            if kept.since >= before:
                return
            del self._kept[key]
            await kept.stream.close()


async def ask(stream: Stream, request: bytes, max_reply: int) -> bytes:
    """One call on a stream that nobody else uses; the deadline is the caller's. CallFailed, and then no more calls."""
    sending = asyncio.create_task(stream.write(frame(request)))  # beside reading: a refusal may come before all is sent
    try:
        size = int.from_bytes(await stream.read(LENGTH_BYTES), "big")
        if size > max_reply:
            raise CallFailed(Failure.TOO_BIG, f"{size} bytes, more than {max_reply}")
        if not size:
            raise CallFailed(Failure.REFUSED)
        reply = await stream.read(size)
        await sending
        return reply
    except (EOFError, OSError) as error:
        raise CallFailed(Failure.CLOSED) from error
    finally:
        sending.cancel()
        with suppress(asyncio.CancelledError, EOFError, OSError):
            await sending
