"""Calls over raw streams, the same for both libraries: framing, bounds and deadlines, and a place for honest peers.

A frame is four bytes of length, big-endian, and that many bytes. A call is a frame of the caller and one of the other
side; an empty one is a refusal. A stream carries one call after another until the caller closes it, see asking.py.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping
from typing import Protocol

from protocol.messages import PeerId
from swarm_node.network.backend import Caller, Handler

LENGTH_BYTES = 4
CALL_SECONDS = 10.0  # an inbound call ends after this, however slowly its peer reads or writes
IDLE_SECONDS = 30.0  # an inbound stream on which nothing was asked for so long ends
STREAMS_PER_SLOT = 16  # open inbound streams for each request that may be in work: waiting costs little, working more
REFUSAL_SECONDS = (
    1.0  # until a refusal is said: hanging up would cost us a handshake when they call again, waiting costs them
)
WINDOW_SECONDS = 10.0
NEW_STREAMS = 256  # of a peer in that time; honest ones ask again on those they have
SLOTS_PER_PEER = 4  # a peer holds at most 1/4 of the slots

log = logging.getLogger(__name__)


class Stream(Protocol):
    """A libp2p stream. Its end, in whatever way, is EOFError or OSError."""

    async def read(self, size: int) -> bytes:
        """Exactly `size` bytes."""
        ...

    async def write(self, data: bytes) -> None:
        """All of the data; raises where the other end is gone."""
        ...

    async def close(self) -> None:
        """Never raises, never waits long."""
        ...


def frame(data: bytes) -> bytes:
    """The data behind its length."""
    return len(data).to_bytes(LENGTH_BYTES, "big") + data


class Answering:
    """Serves inbound streams so that slow and greedy peers cannot keep others out.

    `slots` requests are in work at once. Many more streams may be open, because one that has not yet said anything
    costs little; when all are taken, the one that was silent longest makes room. An honest peer, done in milliseconds,
    hardly ever has to, and opens another if it does.
    """

    def __init__(self, handlers: Mapping[str, Handler], limits: Mapping[str, int], slots: int) -> None:
        self._handlers = handlers
        self._limits = limits  # largest request in bytes, by protocol
        self._slots = asyncio.Semaphore(slots)
        self._max_streams = slots * STREAMS_PER_SLOT
        self._share = max(1, slots // SLOTS_PER_PEER)
        self._streams: dict[asyncio.Task[None], PeerId] = {}  # the longest silent first
        self._open: Counter[PeerId] = Counter()  # streams of each
        self._come: Counter[PeerId] = Counter()  # streams of each since `_window`
        self._window = 0.0  # seconds
        self._working: Counter[PeerId] = Counter()

    async def serve(self, stream: Stream, caller: Caller, protocol: str) -> None:
        """Answer one stream and close it. Runs in a task of its own, which is cancelled when others need the room."""
        task = asyncio.current_task()
        assert task is not None
        try:
            if not self.has_room(caller.peer):
                return
            if len(self._streams) >= self._max_streams:
                oldest = next(iter(self._streams))
                self._leave(oldest)
                oldest.cancel()
            self._streams[task] = caller.peer
            self._open[caller.peer] += 1
            patience = CALL_SECONDS  # for the first call
            more = True
            while more:
                async with asyncio.timeout(patience):
                    size = int.from_bytes(await stream.read(LENGTH_BYTES), "big")
                self._streams[task] = self._streams.pop(task)  # it has spoken
                async with asyncio.timeout(CALL_SECONDS):
                    more = await self._answer(stream, caller, protocol, size)
                patience = IDLE_SECONDS
        except (TimeoutError, EOFError, OSError):
            pass  # the peer's doing
        finally:
            self._leave(task)
            await stream.close()

    def admits(self, peer: PeerId, now: float) -> bool:
        """Whether to take in a new stream of this peer at all, at `now` seconds: before anything is spent on it."""
        if now >= self._window + WINDOW_SECONDS:
            self._window = now
            self._come.clear()
        if self._come[peer] >= NEW_STREAMS or not self.has_room(peer):
            return False
        self._come[peer] += 1
        return True

    def has_room(self, peer: PeerId) -> bool:
        """Whether one more stream of this peer may be open."""
        return self._open[peer] < self._share * STREAMS_PER_SLOT

    def _leave(self, task: "asyncio.Task[None]") -> None:
        peer = self._streams.pop(task, None)
        if peer is not None:
            self._open[peer] -= 1
            if not self._open[peer]:
                del self._open[peer]

    async def _answer(self, stream: Stream, caller: Caller, protocol: str, size: int) -> bool:
        """One call, whose request has `size` bytes; whether there may be another on this stream."""
        fits = size <= self._limits[protocol]
        reply = await self._reply(caller, protocol, await stream.read(size)) if fits else b""
        if not reply:
            await asyncio.sleep(REFUSAL_SECONDS)
        await stream.write(frame(reply))
        if not fits:
            await stream.read(1)  # the caller closes: p2pd drops what is in flight when this side closes first
        return fits

    async def _reply(self, caller: Caller, protocol: str, request: bytes) -> bytes:
        """What to answer; b"" where there is a reason to refuse."""
        if self._working[caller.peer] >= self._share:
            return b""
        self._working[caller.peer] += 1
        try:
            async with self._slots:
                return await self._handlers[protocol](caller, request)
        except Exception:
            log.exception("handler of %s failed", protocol)  # our bug: this call is lost, the node goes on
            return b""
        finally:
            self._working[caller.peer] -= 1
            if not self._working[caller.peer]:
                del self._working[caller.peer]
