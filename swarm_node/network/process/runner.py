"""Runs the exchange, which decides, on a backend, which dials and answers: the acting half of the
network process.

It outlives its backends: when one dies, the next one goes on with the same exchange.

When the machine has slept, the exchange says `StartOver`. All that was under way is given up then,
all connections are closed, and only after that is anybody dialled, at once and whatever failed
before. The same is done when the machine is back in its network. In another network a new backend
begins.
"""

import asyncio
import re
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

from protocol.messages import PeerId
from protocol.wire import ENTER, REQUEST_LIMITS
from swarm_node.common.backoff import backoff, jittered
from swarm_node.network.actions import (
    Action,
    CallPeer,
    Cards,
    Deliver,
    Disconnect,
    ForTrainer,
    Refuse,
    StartOver,
)
from swarm_node.network.backend import Backend, Caller, CallFailed, Failure, Handler
from swarm_node.network.exchange.exchange import Exchange
from swarm_node.network.transport.standing import Change, Moves, Standing, is_loopback

TICK_SECONDS = 0.5
REFRESH_SECONDS = 3.0  # between two looks at connections and own addresses
DIAL_SECONDS = 6.0
FIRST_RETRY = 1.0  # seconds; doubles with each failure
LAST_RETRY = 15.0  # seconds, while there is little company
# Seconds, with company: a bootstrap node must bear thousands of nodes that come back
CALM_RETRY = 60.0
COMPANY = 4  # connected peers
LOOK_SECONDS = 1.0  # between two looks where this machine stands
START_OVER_SECONDS = 3.0  # that closing all connections may take
ELSEWHERE = "this machine has another address now"


@dataclass(slots=True)
class BootstrapNode:
    """A peer through which this node may enter the swarm, and how dialling it went."""

    peer: PeerId
    addresses: tuple[str, ...]  # full multiaddrs
    # By the user, a card or a code of this start; else known from last time, and tried only while
    # there is little company. What may be dialled, and how often, is the gate's business.
    given: bool
    state: str = "not tried yet"
    failures: int = 0  # in a row


class ExchangeRunner:
    """Carries out what the exchange decides, over one backend after another."""

    def __init__(
        self,
        exchange: Exchange,
        bootstrap_nodes: Sequence[BootstrapNode],
        deliver: Callable[[ForTrainer], None],
        changed: Callable[[Sequence[str]], None],
        clock: Callable[[], float],
        random: Random,
        stands: Callable[[], Standing] = lambda: Standing(4, "nowhere", frozenset(["nowhere"])),
        woke: Callable[[], None] = lambda: None,
    ) -> None:
        """`deliver` takes what is for the trainer; `changed` takes this node's addresses whenever
        they differ from before. `stands` says where this machine stands in its networks. `woke` is
        called when the node has slept.
        """
        self.exchange = exchange
        self.bootstrap_nodes = bootstrap_nodes
        self.addresses: tuple[str, ...] = ()
        self.connections: dict[PeerId, str] = {}  # "direct" or, through relays only, "relayed"
        self._deliver, self._changed, self._clock, self._random = deliver, changed, clock, random
        self._stands, self._woke = stands, woke
        self.moved = False  # whether the last backend ended because this machine is elsewhere
        self.away = False  # whether this machine is in no network
        self._backend: Backend | None = None
        self._acting: set[asyncio.Task[None]] = set()
        self._closing: asyncio.Task[None] | None = None  # all connections, after a sleep
        self._closed = asyncio.Event()  # not set while that goes on: nobody is called
        self._closed.set()
        self._over = asyncio.Event()  # set when the next sleep is over

    async def run(self, backend: Backend) -> str:
        """Start this backend, exchange over it until it dies, and say why it did. UserError where
        it cannot start.
        """
        handlers = {protocol: self._handler(protocol) for protocol in REQUEST_LIMITS}
        tasks: list[asyncio.Task[Any]] = []
        try:
            moves = Moves(self._stands())
            await backend.start(handlers, REQUEST_LIMITS)
            self._backend = backend
            if self.moved:
                self.moved = False
                self.perform(self.exchange.woke(self._clock()))
            entering = [self._enter(backend, each) for each in self.bootstrap_nodes]
            watching = self._watch(moves)
            loops = [
                backend.wait_closed(),
                watching,
                self._tick(),
                self._refresh(backend),
                *entering,
            ]
            tasks = [asyncio.create_task(each) for each in loops]
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            # Else a loop ends only by a mistake of ours: raised here
            return next(str(task.result()) for task in done)
        finally:
            self._backend, self.connections = None, {}
            closing = [self._closing] if self._closing is not None else []
            await _cancel([*tasks, *self._acting, *closing])
            await backend.close()

    def counters(self) -> dict[str, int]:
        """Counters of the exchange, and of the present backend since its start."""
        return {**self.exchange.counters(), **(self._backend.counters if self._backend else {})}

    def perform(self, actions: Sequence[Action]) -> None:
        """Does what the exchange asks for; returns at once."""
        if any(isinstance(action, StartOver) for action in actions):
            self._start_over()
        for action in actions:
            match action:
                case Deliver() | Refuse() | Cards():
                    self._deliver(action)
                case Disconnect(peer=peer) if self._backend is not None:
                    self._spawn(_disconnect(self._backend, peer))
                case CallPeer(token=token) if self._backend is None:
                    self.exchange.failed(token, Failure.UNREACHABLE, self._clock())
                case CallPeer(token=token) if self._in_vain(action.peer, action.addresses):
                    self.exchange.failed(token, Failure.HELD, self._clock())
                case CallPeer() if self._backend is not None:
                    self._spawn(self._call(self._backend, action))

    def _start_over(self) -> None:
        """Gives up all calls, closes all connections, and dials anew once they are closed."""
        for task in self._acting - {asyncio.current_task()}:
            task.cancel()
        self.connections = {}
        for node in self.bootstrap_nodes:
            node.failures = 0
        self._woke()
        if self._backend is not None and (self._closing is None or self._closing.done()):
            self._closed.clear()
            self._closing = asyncio.create_task(self._close_all(self._backend))

    async def _close_all(self, backend: Backend) -> None:
        try:
            with suppress(CallFailed, TimeoutError):
                async with asyncio.timeout(START_OVER_SECONDS):
                    await backend.start_over()
        finally:
            over, self._over = self._over, asyncio.Event()
            self._closed.set()
            over.set()

    async def _pause(self, seconds: float) -> None:
        """Waits for so many seconds, or until this node has slept."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._over.wait()

    async def _watch(self, moves: Moves) -> str:
        """Looks where this machine stands; returns once it is elsewhere."""
        while True:
            change = moves.take(self._stands())
            self.away = change is Change.AWAY
            if change is Change.BACK:
                self.perform(self.exchange.woke(self._clock()))
            if change is Change.ELSEWHERE:
                self.moved = True
                return ELSEWHERE
            await asyncio.sleep(LOOK_SECONDS)

    def _in_vain(self, peer: PeerId, addresses: Sequence[str]) -> bool:
        """Whether there is no point in dialling a peer, as this machine is in no network. Another
        node on the same machine can be reached all the same.
        """
        return self.away and peer not in self.connections and not any(map(is_loopback, addresses))

    def _handler(self, protocol: str) -> Handler:
        async def answer(caller: Caller, request: bytes) -> bytes:
            return self.exchange.answer(caller, protocol, request, self._clock())

        return answer

    async def _tick(self) -> None:
        while True:
            self.perform(self.exchange.tick(self._clock()))
            await asyncio.sleep(TICK_SECONDS)

    async def _refresh(self, backend: Backend) -> None:
        while True:
            await self._closed.wait()
            with suppress(CallFailed):
                self._meet(backend, await backend.connections())
                addresses = tuple(await backend.addresses())
                self.exchange.reachable(addresses)
                if addresses != self.addresses:
                    self.addresses = addresses
                    self._changed(addresses)
            await self._pause(REFRESH_SECONDS)

    def _meet(self, backend: Backend, connections: Sequence[Any]) -> None:
        before, peers = self.connections, sorted({each.peer for each in connections})
        direct = {each.peer for each in connections if not each.relayed}
        self.connections = {peer: "direct" if peer in direct else "relayed" for peer in peers}
        for each in connections:
            if not self.exchange.lets(each.peer, each.address):
                self._spawn(_disconnect(backend, each.peer))
        for peer in self.connections.keys() - before:
            # A peer that called us can be called back while it is connected
            self.exchange.learned(peer, ())
        for each in connections:
            self.exchange.met(each.peer, each.address)

    async def _enter(self, backend: Backend, node: BootstrapNode) -> None:
        """Keeps a connection to a bootstrap node: dials it, and again when the connection is lost,
        for ever.
        """
        while True:
            if node.peer in self.connections:
                node.state, node.failures = "connected", 0
                await self._pause(REFRESH_SECONDS)  # connections are not listed more often
                continue
            if self._in_vain(node.peer, node.addresses):
                await self._pause(LOOK_SECONDS)
                continue
            await self._closed.wait()
            if node.given or len(self.connections) < COMPANY:
                await self._dial(backend, node)
            longest = CALM_RETRY if len(self.connections) >= COMPANY else LAST_RETRY
            await self._pause(jittered(backoff(node.failures, FIRST_RETRY, longest), self._random))

    async def _dial(self, backend: Backend, node: BootstrapNode) -> None:
        try:
            async with asyncio.timeout(DIAL_SECONDS + 1.0):
                await backend.dial(node.addresses, DIAL_SECONDS)
        except (CallFailed, TimeoutError) as error:
            # A node that rests after failures goes on showing why the last dial failed
            if not node.failures or not is_held(error):
                node.state = why(error)
            node.failures += 1
        else:
            node.state, node.failures = "connected", 0
            self.exchange.learned(node.peer, node.addresses)
            self.perform(self.exchange.tick(self._clock()))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._acting.add(task)
        task.add_done_callback(self._acted)

    def _acted(self, task: asyncio.Task[None]) -> None:
        self._acting.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error  # a mistake of ours: the loop reports it, the other calls go on

    async def _call(self, backend: Backend, call: CallPeer) -> None:
        try:
            async with asyncio.timeout(call.timeout):
                await self._closed.wait()
                reply = await self._reply(backend, call)
        except CallFailed as error:
            self.perform(self.exchange.failed(call.token, error.failure, self._clock()))
        except TimeoutError:
            self.perform(self.exchange.failed(call.token, Failure.TIMEOUT, self._clock()))
        except asyncio.CancelledError:  # the backend died during the call
            self.exchange.failed(call.token, Failure.CLOSED, self._clock())
            raise
        else:
            self.perform(self.exchange.replied(call.token, reply, self._clock()))

    async def _reply(self, backend: Backend, call: CallPeer) -> bytes:
        """The reply, over the connection to the peer; where there is none, over a new one."""
        ask = partial(self._ask, backend, call)
        try:
            return await ask()
        except CallFailed as error:
            if error.failure != Failure.UNREACHABLE or not call.addresses:
                raise
        await backend.dial(call.addresses, call.timeout)
        return await ask()

    async def _ask(self, backend: Backend, call: CallPeer) -> bytes:
        """The reply of a connected peer; in a private swarm only after both sides have shown that
        they are members.
        """
        if request := self.exchange.members.request(call.peer, self._clock()):
            proof = await backend.call(
                call.peer, ENTER, request, REQUEST_LIMITS[ENTER], call.timeout
            )
            if not self.exchange.members.replied(call.peer, proof, self._clock()):
                raise CallFailed(Failure.REFUSED)
        return await backend.call(
            call.peer, call.protocol, call.request, call.max_reply, call.timeout
        )


def is_held(error: Exception) -> bool:
    """Whether the gate let no address be dialled."""
    return isinstance(error, CallFailed) and error.failure == Failure.HELD


def why(error: Exception) -> str:
    """Why a dial failed, for a person."""
    other = re.search(r"remote key matches (\w+)", str(error))
    return (
        f"another node is there, {other[1]}: its address ends in that"
        if other
        else str(error) or "no answer"
    )


async def _disconnect(backend: Backend, peer: PeerId) -> None:
    with suppress(CallFailed):
        await backend.disconnect(peer)


async def _cancel(tasks: Sequence[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def bootstrap_nodes(
    given: Sequence[tuple[PeerId, str]], cached: Mapping[PeerId, tuple[str, ...]], own: PeerId
) -> list[BootstrapNode]:
    """One node per peer, the user's first; several addresses of one peer are tried side by side."""
    found: dict[PeerId, BootstrapNode] = {}
    for peer, address in given:
        before = found[peer].addresses if peer in found else ()
        found[peer] = BootstrapNode(peer, (*before, address), given=True)
    for peer, addresses in cached.items():
        if peer not in found:
            found[peer] = BootstrapNode(peer, addresses, given=False)
    found.pop(own, None)
    return list(found.values())
