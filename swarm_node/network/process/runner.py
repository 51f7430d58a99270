"""Runs the exchange, which decides, on a backend, which dials and answers: the acting half of the
network process.

It outlives its backends: when one dies, the next one goes on with the same exchange.
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
)
from swarm_node.network.backend import Backend, Caller, CallFailed, Failure, Handler
from swarm_node.network.exchange.exchange import Exchange

TICK_SECONDS = 0.5
REFRESH_SECONDS = 3.0  # between two looks at connections and own addresses
DIAL_SECONDS = 6.0
FIRST_RETRY = 1.0  # seconds; doubles with each failure
LAST_RETRY = 15.0  # seconds, while there is little company
# Seconds, with company: a bootstrap node must bear thousands of nodes that come back
CALM_RETRY = 60.0
COMPANY = 4  # connected peers


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
    ) -> None:
        """`deliver` takes what is for the trainer; `changed` takes this node's addresses whenever
        they differ from before.
        """
        self.exchange = exchange
        self.bootstrap_nodes = bootstrap_nodes
        self.addresses: tuple[str, ...] = ()
        self.connections: dict[PeerId, str] = {}  # "direct" or, through relays only, "relayed"
        self._deliver, self._changed, self._clock, self._random = deliver, changed, clock, random
        self._backend: Backend | None = None
        self._acting: set[asyncio.Task[None]] = set()

    async def run(self, backend: Backend) -> str:
        """Start this backend, exchange over it until it dies, and say why it did. UserError where
        it cannot start.
        """
        handlers = {protocol: self._handler(protocol) for protocol in REQUEST_LIMITS}
        tasks: list[asyncio.Task[Any]] = []
        try:
            await backend.start(handlers, REQUEST_LIMITS)
            self._backend = backend
            entering = [self._enter(backend, each) for each in self.bootstrap_nodes]
            loops = [backend.wait_closed(), self._tick(), self._refresh(backend), *entering]
            tasks = [asyncio.create_task(each) for each in loops]
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            # A loop ends only by a mistake of ours: raised here
            return next(str(task.result()) for task in done)
        finally:
            self._backend, self.connections = None, {}
            await _cancel([*tasks, *self._acting])
            await backend.close()

    def counters(self) -> dict[str, int]:
        """Counters of the exchange, and of the present backend since its start."""
        return {**self.exchange.counters(), **(self._backend.counters if self._backend else {})}

    def perform(self, actions: Sequence[Action]) -> None:
        """Does what the exchange asks for; returns at once."""
        for action in actions:
            match action:
                case Deliver() | Refuse() | Cards():
                    self._deliver(action)
                case Disconnect(peer=peer) if self._backend is not None:
                    self._spawn(_disconnect(self._backend, peer))
                case CallPeer(token=token) if self._backend is None:
                    self.exchange.failed(token, Failure.UNREACHABLE, self._clock())
                case CallPeer() if self._backend is not None:
                    self._spawn(self._call(self._backend, action))

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
            with suppress(CallFailed):
                self._meet(backend, await backend.connections())
                addresses = tuple(await backend.addresses())
                if addresses != self.addresses:
                    self.addresses = addresses
                    self.exchange.reachable(addresses)
                    self._changed(addresses)
            await asyncio.sleep(REFRESH_SECONDS)

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
                await asyncio.sleep(REFRESH_SECONDS)  # connections are not listed more often
                continue
            if node.given or len(self.connections) < COMPANY:
                await self._dial(backend, node)
            longest = CALM_RETRY if len(self.connections) >= COMPANY else LAST_RETRY
            await asyncio.sleep(
                jittered(backoff(node.failures, FIRST_RETRY, longest), self._random)
            )

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
