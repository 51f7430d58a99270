"""Calls over raw streams, the same for both libraries: framing, bounds and deadlines, and room for
honest peers; and all else that both backends do in the same way.

A frame is four bytes of length, big-endian, and that many bytes. A call is a frame of the caller
and one of the other side; an empty reply is a refusal. A stream carries one call after another
until the caller closes it: opening one costs three quarters of a call, as the daemons at both ends
negotiate a protocol and connect to a socket each.
"""

import asyncio
import logging
from abc import abstractmethod
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

from protocol.messages import PeerId
from swarm_node.network.backend import Backend, Caller, CallFailed, Failure, Handler, Stream
from swarm_node.network.parties import SHARE, PartySlots, groups_of
from swarm_node.network.transport.backends import MAX_INBOUND, HostOptions
from swarm_node.network.transport.dialling import Dialling
from swarm_node.network.transport.multiaddr import usefulness
from swarm_node.network.transport.relays import Relays
from swarm_node.network.transport.standing import may_be_here, present_addresses

LENGTH_BYTES = 4
CALL_SECONDS = 10.0  # an inbound call ends after this, however slowly its peer reads or writes
IDLE_SECONDS = 30.0  # an inbound stream on which nothing was asked for so long ends
# Open inbound streams for each request that may be in work: an idle stream costs little
STREAMS_PER_SLOT = 16
# Before a refusal is sent: a disconnected peer would call again, with a costly handshake
REFUSAL_SECONDS = 1.0
WINDOW_SECONDS = 10.0
NEW_STREAMS = 256  # of one party in that time; honest peers use the streams they have again
# Streams of one peer refused in that time, after which it is hung up on, and after as many again:
# each costs the daemon a quarter of a millisecond, however early it is refused
REFUSED_STREAMS = 64
# A peer on a local network holds at most 1/4 of the slots; on the internet see parties.py
SLOTS_PER_PEER = 4

log = logging.getLogger(__name__)


def frame(data: bytes) -> bytes:
    """The data behind its length."""
    return len(data).to_bytes(LENGTH_BYTES, "big") + data


class Answering:
    """Serves inbound streams so that slow and greedy peers cannot keep others out.

    `slots` requests are in work at once. Many more streams may be open, because one that has not
    yet said anything costs little; when all are taken, the one that was silent longest makes room.
    An honest peer, done in milliseconds, hardly ever loses a stream, and can open another. One
    party of the internet holds a sixteenth of slots and streams.
    """

    def __init__(
        self,
        handlers: Mapping[str, Handler],
        limits: Mapping[str, int],
        slots: int,
        counters: Counter[str] | None = None,
        hang_up: Callable[[PeerId], object] = lambda peer: None,
    ) -> None:
        """`counters`: where refused streams are counted. `hang_up` begins to close all connections
        with a peer that floods.
        """
        self._hang_up = hang_up
        self._handlers = handlers
        self._limits = limits  # largest request in bytes, by protocol
        self._slots = asyncio.Semaphore(slots)
        self._max_streams = slots * STREAMS_PER_SLOT
        self._share = max(1, slots // SLOTS_PER_PEER)
        self._streams: dict[asyncio.Task[None], Caller] = {}  # the longest silent first
        self._open = PartySlots(self._max_streams, self._share * STREAMS_PER_SLOT)
        self._come: Counter[str] = Counter()  # streams of each party since `_window`
        self._refused: Counter[PeerId] = Counter()  # those of each peer that were refused
        self._window = 0.0  # seconds
        self._turns_at_once = max(1, slots // SHARE)  # slots of one party of the internet
        self._turns: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._counters: Counter[str] = Counter() if counters is None else counters

    async def serve(self, stream: Stream, caller: Caller, protocol: str) -> None:
        """Answer one stream and close it. Runs in a task of its own, which is cancelled when others
        need the room.
        """
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
        """Whether to take in a new stream of this caller at all, at `now` seconds, before anything
        is spent on it.
        """
        if now >= self._window + WINDOW_SECONDS:
            self._window = now
            self._come.clear()
            self._refused.clear()
        parties = (caller.peer, *groups_of(caller.address))
        if not self._has_room(caller) or any(self._come[party] >= NEW_STREAMS for party in parties):
            self._refuse(caller.peer)
            return False
        self._come.update(parties)
        return True

    def _refuse(self, peer: PeerId) -> None:
        """Counts a refused stream. A peer that goes on opening streams is hung up on."""
        self._counters["streams refused: too many of one party"] += 1
        self._refused[peer] += 1
        if self._refused[peer] % REFUSED_STREAMS == 0:
            self._counters["hung up: flood of streams"] += 1
            self._hang_up(peer)

    def _has_room(self, caller: Caller) -> bool:
        return self._open.has_room(caller.peer, groups_of(caller.address))

    def _leave(self, task: "asyncio.Task[None]") -> None:
        if (caller := self._streams.pop(task, None)) is not None:
            self._open.leave(caller.peer, groups_of(caller.address))

    async def _answer(self, stream: Stream, caller: Caller, protocol: str, size: int) -> bool:
        """Answers one call, whose request has `size` bytes; whether another may follow on this
        stream.
        """
        fits = size <= self._limits[protocol]
        reply = await self._reply(caller, protocol, await stream.read(size)) if fits else b""
        if not reply:
            await asyncio.sleep(REFUSAL_SECONDS)
        await stream.write(frame(reply))
        if not fits:
            # Until the caller closes: p2pd drops what is in flight when this side closes first
            await stream.read(1)
        return fits

    async def _reply(self, caller: Caller, protocol: str, request: bytes) -> bytes:
        """The reply to a request; b"" refuses."""
        try:
            async with AsyncExitStack() as turns:
                for turn in self._turns_of(caller):
                    await turns.enter_async_context(turn)
                async with self._slots:
                    return await self._handlers[protocol](caller, request)
        except Exception:
            # Our bug: this call is lost, the node goes on
            log.exception("handler of %s failed", protocol)
            return b""

    def _turns_of(self, caller: Caller) -> list[asyncio.Semaphore]:
        """The semaphores that a caller waits for before it takes a slot. All callers take them in
        the same order, from the peer to its network, so that no two wait for each other.
        """
        groups = groups_of(caller.address)
        at_once = self._turns_at_once if groups else self._share
        turns = [f"{at_once} {party}" for party in (caller.peer, *groups)]
        return [self._turns.setdefault(turn, asyncio.Semaphore(at_once)) for turn in turns]


# An unused stream is closed after this; the other side waits longer (IDLE_SECONDS)
KEPT_SECONDS = 20.0
MAX_KEPT = 64  # unused streams; the longest unused one makes room

# Peer, protocol, seconds; raises CallFailed only
Open = Callable[[PeerId, str, float], Awaitable[Stream]]


@dataclass(frozen=True, slots=True)
class _IdleStream:
    stream: Stream
    since: float  # seconds


class StreamCaller:
    """Calls over streams that `open` makes. Belongs to one asyncio loop."""

    def __init__(self, open: Open) -> None:
        self._open = open
        self._kept: dict[tuple[PeerId, str], _IdleStream] = {}  # unused; the longest unused first

    async def call(
        self, peer: PeerId, protocol: str, request: bytes, max_reply: int, timeout: float
    ) -> bytes:
        """The reply, at most `max_reply` bytes, within `timeout` seconds. CallFailed for whatever
        the peer does.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        await self._tidy(loop.time() - KEPT_SECONDS)
        if (kept := self._kept.pop((peer, protocol), None)) is not None:
            try:
                return await self._ask(kept.stream, (peer, protocol), request, max_reply, deadline)
            except CallFailed as error:
                if error.failure != Failure.CLOSED:
                    # Else the other side had closed the unused stream before this call: a new one
                    # is opened
                    raise
        stream = await self._open(peer, protocol, deadline - loop.time())
        return await self._ask(stream, (peer, protocol), request, max_reply, deadline)

    async def close(self) -> None:
        await self._tidy(float("inf"))

    async def _ask(
        self,
        stream: Stream,
        key: tuple[PeerId, str],
        request: bytes,
        max_reply: int,
        deadline: float,
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
        before = self._kept.pop(key, None)  # the stream of a parallel call to the same peer
        self._kept[key] = _IdleStream(stream, asyncio.get_running_loop().time())
        if before is None and len(self._kept) > MAX_KEPT:
            before = self._kept.pop(next(iter(self._kept)))
        if before is not None:
            await before.stream.close()

    async def _tidy(self, before: float) -> None:
        """Closes the unused streams that were last used before `before`."""
        while self._kept:
            key, kept = next(iter(self._kept.items()))
            if kept.since >= before:
                return
            del self._kept[key]
            await kept.stream.close()


async def ask(stream: Stream, request: bytes, max_reply: int) -> bytes:
    """One call on a stream that nobody else uses; the caller sets the deadline. No more calls after
    a CallFailed.
    """
    # Beside reading: a refusal may come before all is sent
    sending = asyncio.create_task(stream.write(frame(request)))
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


class StreamBackend(Backend):
    """A backend of a library that opens streams. What the library does is left to subclasses."""

    def __init__(self, options: HostOptions, careful: bool = False) -> None:
        """`careful`: see Dialling."""
        self.peer_id = options.identity.peer_id
        self.counters: Counter[str] = Counter()
        self._options = options
        self._asking = StreamCaller(self.open_stream)
        self._relays = Relays(self, self.open_stream, options.relays)
        self.dialling = Dialling(options.gate, self._connect, self.connections, careful)
        self._tasks: set[asyncio.Task[None]] = set()

    @abstractmethod
    async def open_stream(self, peer: PeerId, protocol: str, timeout: float = 5.0) -> Stream:
        """A stream to a connected peer. Dials nobody: CallFailed where the peer is not
        connected.
        """

    @abstractmethod
    async def _connect(self, peer: PeerId, addresses: Sequence[str], timeout: float) -> None:
        """Connects to the peer, or raises CallFailed."""

    @abstractmethod
    async def _own_addresses(self) -> set[str]:
        """Multiaddrs where this node listens or is seen, without its id."""

    @abstractmethod
    def _used(self, peer: PeerId) -> None:
        """Notes that a call to or from this peer goes on, or went well."""

    async def dial(self, addresses: Sequence[str], timeout: float) -> PeerId:
        return await self.dialling.dial(addresses, timeout)

    async def call(
        self, peer: PeerId, protocol: str, request: bytes, max_reply: int, timeout: float
    ) -> bytes:
        reply = await self._asking.call(peer, protocol, request, max_reply, timeout)
        self._used(peer)
        return reply

    async def addresses(self) -> list[str]:
        own = await self._own_addresses()
        if not self._options.config.announce:
            present = present_addresses()
            own = {address for address in own if may_be_here(address, present)}
        known = own | set(self._relays.addresses())
        ordered = sorted(known, key=lambda it: (usefulness(it), it))
        return [f"{address}/p2p/{self.peer_id}" for address in ordered]

    async def start_over(self) -> None:
        await self._asking.close()
        peers = {connection.peer for connection in await self.connections()}
        await asyncio.gather(*map(self.disconnect, peers), return_exceptions=True)
        self._relays.start_over()

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

        def hang_up(peer: PeerId) -> None:
            self.spawn(self._leave_alone(peer))

        return Answering(noted, limits, MAX_INBOUND, self.counters, hang_up)

    async def _leave_alone(self, peer: PeerId) -> None:
        with suppress(CallFailed):  # it has gone by itself
            await self.disconnect(peer)

    async def _seek_relays(self) -> None:
        """Keeps reservations at relays, if this node has no public address of its own."""
        if not any(usefulness(address) == 0 for address in await self.addresses()):
            self.spawn(self._relays.run())

    def _is_kept(self, peer: str, address: str) -> bool:
        """Whether to keep a connection, however many its party has."""
        return self._relays.holds(PeerId(peer)) or self.dialling.leads_to_given(address)

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Runs this work in a task, until `close` at the latest."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
