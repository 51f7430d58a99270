"""Many exchanges in one process: an event queue in place of sockets, with latency, loss, death and
partition.

The nodes are the real state machines and their bytes are real; only the network between them is
simulated. For tests and for `lab.studies.scale`. Nothing here is thread-safe.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import Protocol

from protocol import limits
from protocol.messages import PeerId
from swarm_node.network.actions import Action, CallPeer, Deliver, Disconnect, Refuse
from swarm_node.network.backend import Caller, Failure
from swarm_node.network.exchange.exchange import Exchange

TICK = 1.0  # seconds


class Answering(Protocol):
    """A party that answers calls: an `Exchange`, or something hostile."""

    def answer(self, caller: Caller, protocol: str, request: bytes, now: float) -> bytes: ...


@dataclass(slots=True)
class SimulatedPeer:
    peer: PeerId
    party: Answering
    address: str  # multiaddr from which it calls, as others see it
    alive: bool = True
    delivered: list[tuple[float, Deliver]] = field(default_factory=list)  # with the time, seconds
    hung_up: list[PeerId] = field(default_factory=list)
    received: int = 0  # bytes, frames included
    sent: int = 0


class World:
    """`latency`: range of seconds for one way. `loss`: probability that a call times out."""

    def __init__(
        self,
        rng: Random,
        latency: tuple[float, float] = (0.01, 0.1),
        loss: float = 0.0,
        connect_timeout: float = 5.0,
        keep_deliveries: bool = True,
    ) -> None:
        self.now = 0.0  # seconds
        self.members: dict[PeerId, SimulatedPeer] = {}
        self.on_delivery: Callable[[SimulatedPeer, Deliver], None] | None = None
        self.on_refusal: Callable[[SimulatedPeer, Refuse], None] | None = None
        self._rng = rng
        self._latency = latency
        self._loss = loss
        self._connect_timeout = connect_timeout
        self._keep = keep_deliveries
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()
        self._sides: Mapping[PeerId, int] = {}

    def join(self, peer: PeerId, party: Answering, address: str) -> SimulatedPeer:
        """Adds a peer, which others can call from now on. An `Exchange` ticks, at a phase of its
        own.
        """
        member = self.members[peer] = SimulatedPeer(peer, party, address)
        if isinstance(party, Exchange):
            party.reachable([f"{address}/p2p/{peer}"])
            self.after(self._rng.uniform(0, TICK), partial(self._tick, member, party))
        return member

    def kill(self, peer: PeerId) -> None:
        """From now on the peer does nothing. New calls to it fail as unreachable, and calls on
        their way as closed.
        """
        self.members[peer].alive = False

    def part(self, *sides: Iterable[PeerId]) -> None:
        """Calls between sides fail. A node on no side is on side 0. Without arguments the partition
        ends.
        """
        self._sides = {peer: number for number, side in enumerate(sides) for peer in side}

    def after(self, delay: float, event: Callable[[], None]) -> None:
        heappush(self._events, (self.now + delay, next(self._order), event))

    def run(self, seconds: float) -> None:
        """Lets this much time pass."""
        end = self.now + seconds
        while self._events and self._events[0][0] <= end:
            self.now, _, event = heappop(self._events)
            event()
        self.now = end

    def perform(self, member: SimulatedPeer, actions: Iterable[Action]) -> None:
        """Carries out actions of an exchange."""
        for action in actions:
            if isinstance(action, CallPeer):
                self._call(member, action)
            elif isinstance(action, Disconnect):
                member.hung_up.append(action.peer)
            elif isinstance(action, Refuse):
                if self.on_refusal:
                    self.on_refusal(member, action)
            elif isinstance(action, Deliver):
                if self._keep:
                    member.delivered.append((self.now, action))
                if self.on_delivery:
                    self.on_delivery(member, action)

    def _tick(self, member: SimulatedPeer, exchange: Exchange) -> None:
        if member.alive:
            self.perform(member, exchange.tick(self.now))
            self.after(TICK, partial(self._tick, member, exchange))

    def _call(self, member: SimulatedPeer, call: CallPeer) -> None:
        target = self.members.get(call.peer)
        if target is None or not target.alive or not self._is_together(member.peer, call.peer):
            self.after(
                min(self._connect_timeout, call.timeout),
                partial(self._fail, member, call, Failure.UNREACHABLE),
            )
        elif self._rng.random() < self._loss:
            self.after(call.timeout, partial(self._fail, member, call, Failure.TIMEOUT))
        else:
            self.after(
                self._rng.uniform(*self._latency), partial(self._arrive, member, target, call)
            )

    def _arrive(self, member: SimulatedPeer, target: SimulatedPeer, call: CallPeer) -> None:
        if not target.alive:
            self._fail(member, call, Failure.CLOSED)
            return
        reply = target.party.answer(
            Caller(member.peer, member.address), call.protocol, call.request, self.now
        )
        self._carry(member, target, len(call.request))
        self._carry(target, member, len(reply))
        back = self._rng.uniform(*self._latency)
        if len(reply) > call.max_reply:
            self.after(back, partial(self._fail, member, call, Failure.TOO_BIG))
        else:
            self.after(back, partial(self._reply, member, call, reply))

    def _reply(self, member: SimulatedPeer, call: CallPeer, reply: bytes) -> None:
        if member.alive and isinstance(member.party, Exchange):
            self.perform(member, member.party.replied(call.token, reply, self.now))

    def _fail(self, member: SimulatedPeer, call: CallPeer, failure: Failure) -> None:
        if member.alive and isinstance(member.party, Exchange):
            self.perform(member, member.party.failed(call.token, failure, self.now))

    def _carry(self, source: SimulatedPeer, target: SimulatedPeer, body: int) -> None:
        source.sent += body + limits.FRAME_HEADER_BYTES
        target.received += body + limits.FRAME_HEADER_BYTES

    def _is_together(self, one: PeerId, other: PeerId) -> bool:
        return self._sides.get(one, 0) == self._sides.get(other, 0)
