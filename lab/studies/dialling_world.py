"""The simulated swarm with connections: a node that is not connected has to dial, through the gate or without one.

Bytes that dials send to addresses without a host are counted, as `lab.studies.reflection_real` measured them.
"""

from collections import Counter
from functools import partial
from random import Random

from lab.studies.scale import LATENCY, LOSS
from lab.studies.simulated_exchange import SimulatedPeer, World
from protocol.messages import PeerId
from swarm_node.common.lru import Lru
from swarm_node.network.actions import Call
from swarm_node.network.backend import Failure
from swarm_node.network.transport.dialable import Dialable, target_of
from swarm_node.network.transport.gate import QUIC_BYTES, TCP_BYTES, Choice, DialGate

CONNECTIONS = 64  # of one node; the one that was used last longest ago makes room
DIAL_SECONDS = 5.0  # until a dial into the void is given up


class DiallingWorld(World):
    """`gated`: nodes have gates; else they dial whatever they are told, all addresses of a peer at once."""

    def __init__(self, seed: int, gated: bool) -> None:
        super().__init__(Random(f"wire/{seed}"), LATENCY, LOSS, keep_deliveries=False)
        self.rng = Random(f"dialling/{seed}")
        self.dials: Counter[str] = Counter()
        self.void: Counter[str] = Counter()  # bytes to where nobody answers, by IP address
        self._gated = gated
        self._gates: dict[PeerId, DialGate] = {}
        self._connected: dict[PeerId, Lru[PeerId, None]] = {}

    def _call(self, member: SimulatedPeer, call: Call) -> None:
        target = self.members.get(call.peer)
        alive = target is not None and target.alive and self._is_together(member.peer, call.peer)
        if alive and call.peer in self._open(member.peer):
            self._connect(member.peer, call.peer)  # used again
            super()._call(member, call)
            return
        choice = self._choose(member.peer, call)
        if not choice.addresses:
            self.dials["held back"] += 1
            self.after(0.0, partial(self._fail, member, call, Failure.HELD))
            return
        where = f"{target.address}/p2p/{call.peer}" if target and alive else ""
        for address in choice.addresses:
            self._charge(address, where)
        if where in choice.addresses:
            self.dials["answered"] += 1
            self._connect(member.peer, call.peer)
            self._gate(member.peer).reached(choice, [where], self.now)
            super()._call(member, call)
        else:
            self.dials["in vain"] += 1
            self._gate(member.peer).failed(choice, self.now)
            self.after(DIAL_SECONDS, partial(self._fail, member, call, Failure.UNREACHABLE))

    def _choose(self, node: PeerId, call: Call) -> Choice:
        if self._gated:
            return self._gate(node).choose(call.addresses, self.now)
        return Choice(call.addresses)

    def _charge(self, address: str, where: str) -> None:
        point = target_of(address)
        if point is not None and address != where:
            self.void[str(point.ip)] += QUIC_BYTES if point.udp else TCP_BYTES

    def _gate(self, node: PeerId) -> DialGate:
        if node not in self._gates:
            self._gates[node] = DialGate(Dialable([], [], list))
        return self._gates[node]

    def _open(self, node: PeerId) -> Lru[PeerId, None]:
        return self._connected.setdefault(node, Lru(CONNECTIONS))

    def _connect(self, one: PeerId, other: PeerId) -> None:
        self._open(one)[other] = None
        self._open(other)[one] = None
