"""Calls over raw streams, the same for both libraries: framing, bounds and deadlines, and a place for honest peers.

A frame is four bytes of length, big-endian, and that many bytes. A call is a frame of the caller and one of the other
side; an empty one is a refusal. A stream carries one call after another until the caller closes it, see asking.py.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Protocol
from weakref import WeakValueDictionary

from protocol.messages import PeerId
from swarm_node.network.backend import Caller, Handler
from swarm_node.network.parties import SHARE, Places, groups_of

LENGTH_BYTES = 4
CALL_SECONDS = 10.0  # an inbound call ends after this, however slowly its peer reads or writes
IDLE_SECONDS = 30.0  # an inbound stream on which nothing was asked for so long ends
STREAMS_PER_SLOT = 16  # open inbound streams for each request that may be in work: waiting costs little, working more
REFUSAL_SECONDS = (
    1.0  # until a refusal is said: hanging up would cost us a handshake when they call again, waiting costs them
)
WINDOW_SECONDS = 10.0
NEW_STREAMS = 256  # of a party in that time; honest ones ask again on those they have
SLOTS_PER_PEER = 4  # a peer on a local network holds at most 1/4 of the slots; on the internet see parties.py

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
    hardly ever has to, and opens another if it does. Of both, one party of the internet holds a sixteenth.
    """

    def __init__(
        self,
        handlers: Mapping[str, Handler],
        limits: Mapping[str, int],
        slots: int,
        counters: Counter[str] | None = None,
    ) -> None:
        """`counters`: where refused streams are counted."""
        self._handlers = handlers
        self._limits = limits  # largest request in bytes, by protocol
        self._slots = asyncio.Semaphore(slots)
        self._max_streams = slots * STREAMS_PER_SLOT
        self._share = max(1, slots // SLOTS_PER_PEER)
        self._streams: dict[asyncio.Task[None], Caller] = {}  # the longest silent first
        self._open = Places(self._max_streams, self._share * STREAMS_PER_SLOT)
        self._come: Counter[str] = Counter()  # streams of each party since `_window`
        self._window = 0.0  # seconds
        self._working: Counter[PeerId] = Counter()  # calls of each, those that wait for their turn as well
        self._turns_at_once = max(1, slots // SHARE)
        self._turns: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._counters: Counter[str] = Counter() if counters is None else counters

    async def serve(self, stream: Stream, caller: Caller, protocol: str) -> None:
        """Answer one stream and close it. Runs in a task of its own, which is cancelled when others need the room."""
        task = asyncio.current_task()
        assert task is not None
        try:
            if not self._has_room(caller):
                return
            if len(self._streams) >= self._max_streams:
                oldest = next(iter(self._streams))
                self._leave(oldest)
                oldest.cancel()
            self._streams[task] = caller
            self._open.take(caller.peer, groups_of(caller.address))
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

    def admits(self, caller: Caller, now: float) -> bool:
        """Whether to take in a new stream of this caller at all, at `now` seconds: before anything is spent on it."""
        if now >= self._window + WINDOW_SECONDS:
            self._window = now
            self._come.clear()
        parties = (caller.peer, *groups_of(caller.address))
        if not self._has_room(caller) or any(self._come[party] >= NEW_STREAMS for party in parties):
            self._counters["streams refused: too many of one party"] += 1
            return False
        self._come.update(parties)
        return True

    def _has_room(self, caller: Caller) -> bool:
        return self._open.has_room(caller.peer, groups_of(caller.address))

    def _leave(self, task: "asyncio.Task[None]") -> None:
        if (caller := self._streams.pop(task, None)) is not None:
            self._open.leave(caller.peer, groups_of(caller.address))

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
            async with AsyncExitStack() as turns:
                for turn in self._turns_of(caller):
                    await turns.enter_async_context(turn)
                async with self._slots:
                    return await self._handlers[protocol](caller, request)
        except Exception:
            log.exception("handler of %s failed", protocol)  # our bug: this call is lost, the node goes on
            return b""
        finally:
            self._working[caller.peer] -= 1
            if not self._working[caller.peer]:
                del self._working[caller.peer]

    def _turns_of(self, caller: Caller) -> list[asyncio.Semaphore]:
        """What a caller of the internet waits for before it takes a slot. From the peer to the network, for all in the
        same order, so that no two wait for each other."""
        groups = groups_of(caller.address)
        parties = (caller.peer, *groups) if groups else ()
        return [self._turns.setdefault(party, asyncio.Semaphore(self._turns_at_once)) for party in parties]
