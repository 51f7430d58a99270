"""The promises of the exchange hold under any schedule of publishing, losing, delaying and spoiling
messages.
"""

from random import Random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from protocol.messages import PeerId, Round
from swarm_node.network.actions import Action, CallPeer, Deliver
from swarm_node.network.backend import Caller, Failure
from swarm_node.network.exchange.exchange import Exchange
from swarm_node.network.exchange.knowledge import OVERDUE
from swarm_node.network.exchange.view import CAPACITY, MAX_AGE
from swarm_node.settings import NetworkConfig
from tests.exchanges import SWARM, address, identity, key_of, sealed_groups

NODES = 4
numbers = st.integers(0, NODES - 1)


class Schedules(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.nodes = [
            Exchange(identity(n), SWARM, NetworkConfig(), Random(n), 0.0) for n in range(NODES)
        ]
        self.index = {identity(n).peer_id: n for n in range(NODES)}
        self.rounds = [0] * NODES
        self.waiting: list[
            tuple[int, CallPeer, bytes | None]
        ] = []  # with the reply, once there is one
        # Seconds when each call was made, by node and token
        self.made: dict[tuple[int, int], float] = {}
        self.done: list[tuple[int, CallPeer]] = []
        self.delivered: list[list[bytes]] = [[] for _ in range(NODES)]
        # Of groups received since the last round
        self.origins: list[list[PeerId]] = [[] for _ in range(NODES)]
        # Groups, in this round; in this one and the one before
        self.want, self.wanted = [4] * NODES, [4] * NODES
        self.published: set[bytes] = set()
        for n, node in enumerate(self.nodes):
            for other in range(NODES):
                node.learned(
                    identity(other).peer_id, [f"{address(other)}/p2p/{identity(other).peer_id}"]
                )
            node.reachable([f"{address(n)}/p2p/{identity(n).peer_id}"])

    def perform(self, n: int, actions: list[Action]) -> None:
        for action in actions:
            if isinstance(action, CallPeer):
                assert action.peer != identity(n).peer_id
                self.waiting.append((n, action, None))
                self.made[n, action.token] = self.now
            elif isinstance(action, Deliver):
                self.take(n, action)

    def take(self, n: int, delivery: Deliver) -> None:
        assert delivery.content_hash in map(key_of, self.published)  # no spoilt bytes get here
        assert delivery.content_hash not in self.delivered[n]
        self.delivered[n].append(delivery.content_hash)
        author = delivery.group.author
        assert self.origins[n].count(author) < self.wanted[n]
        self.origins[n].append(author)

    @initialize(seed=st.integers(0, 2**16))
    def meet(self, seed: int) -> None:
        for second in range(4):
            self.let_time_pass(1.0)
            self.settle(seed + second)

    @rule(n=numbers, count=st.integers(0, 3), want=st.integers(0, 6))
    def publish(self, n: int, count: int, want: int) -> None:
        groups = sealed_groups(identity(n), self.rounds[n], count)
        self.published.update(groups)
        # Groups asked for before may still come
        self.origins[n], self.wanted[n] = [], max(want, self.want[n])
        self.want[n] = want
        self.perform(n, self.nodes[n].publish(groups, Round(self.rounds[n]), want, self.now))
        self.rounds[n] += 1

    @rule(want=st.integers(1, 6), seed=st.integers(0, 2**16))
    def everybody_publishes(self, want: int, seed: int) -> None:
        for n in range(NODES):
            self.publish(n, 2, want)
        for second in range(3):
            self.settle(seed + second)
            self.let_time_pass(1.0)

    @rule(seconds=st.sampled_from([0.1, 1.0, 7.0, 61.0, MAX_AGE + 1]))
    def let_time_pass(self, seconds: float) -> None:
        self.now += seconds
        for n, node in enumerate(self.nodes):
            self.perform(n, node.tick(self.now))

    @precondition(lambda self: self.waiting)
    @rule(seed=st.integers(0, 2**16))
    def settle(self, seed: int) -> None:
        """Many waiting requests and replies arrive, in any order."""
        rng = Random(seed)
        for _ in range(30):
            if self.waiting:
                self.advance(rng.randrange(len(self.waiting)))

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def arrive(self, data: st.DataObject) -> None:
        self.advance(data.draw(st.integers(0, len(self.waiting) - 1)))

    def advance(self, position: int) -> None:
        """Lets a waiting request arrive, or the reply to it."""
        n, call, reply = self.waiting[position]
        if reply is None:
            caller = Caller(identity(n).peer_id, address(n))
            reply = self.nodes[self.index[call.peer]].answer(
                caller, call.protocol, call.request, self.now
            )
            assert len(reply) <= call.max_reply
            self.waiting[position] = (n, call, reply)
        else:
            del self.waiting[position]
            self.done.append((n, call))
            self.perform(n, self.nodes[n].replied(call.token, reply, self.now))

    @precondition(lambda self: self.waiting)
    @rule(data=st.data(), failure=st.sampled_from(Failure))
    def fail(self, data: st.DataObject, failure: Failure) -> None:
        n, call, _ = self.waiting.pop(data.draw(st.integers(0, len(self.waiting) - 1)))
        self.perform(n, self.nodes[n].failed(call.token, failure, self.now))

    @precondition(lambda self: self.waiting)
    @rule(data=st.data(), spoilt=st.binary(max_size=80))
    def spoil(self, data: st.DataObject, spoilt: bytes) -> None:
        n, call, reply = self.waiting.pop(data.draw(st.integers(0, len(self.waiting) - 1)))
        start = data.draw(st.integers(0, len(reply or b"")))
        changed = (reply or b"")[:start] + spoilt + (reply or b"")[start + len(spoilt) :]
        self.perform(n, self.nodes[n].replied(call.token, changed, self.now))

    @precondition(lambda self: self.done)
    @rule(data=st.data())
    def answer_again(self, data: st.DataObject) -> None:
        n, call = data.draw(st.sampled_from(self.done))
        assert self.nodes[n].replied(call.token, b"\0", self.now) == []

    @rule(n=numbers)
    def restart(self, n: int) -> None:
        self.nodes[n].tick(self.now)
        state = self.nodes[n].state()
        self.nodes[n] = Exchange(identity(n), SWARM, NetworkConfig(), Random(n), self.now)
        self.nodes[n].restore(state, self.now)
        assert self.nodes[n].state().seen == state.seen
        self.waiting = [each for each in self.waiting if each[0] != n]
        self.done = [each for each in self.done if each[0] != n]
        self.origins[n] = []
        for other in range(NODES):
            self.nodes[n].learned(identity(other).peer_id, [])

    @invariant()
    def bounded(self) -> None:
        for n, node in enumerate(self.nodes):
            assert len(node.view) <= CAPACITY
            assert identity(n).peer_id not in {entry.announcement.author for entry in node.view}
            assert sum(m == n and self.is_under_way(n, call) for m, call, _ in self.waiting) <= 40

    def is_under_way(self, n: int, call: CallPeer) -> bool:
        """Whether the node still waits for this call. A node gives up calls that its runner never
        ends.
        """
        return self.now - self.made[n, call.token] <= call.timeout + OVERDUE


TestSchedules = Schedules.TestCase
TestSchedules.settings = settings(max_examples=20, stateful_step_count=30, deadline=None)


def test_calls_that_are_never_ended_do_not_add_up() -> None:
    schedules = Schedules()
    schedules.meet(0)
    for seconds in (61.0, MAX_AGE + 1, *[61.0] * 20):
        schedules.let_time_pass(seconds)
        schedules.bounded()
    assert len(schedules.waiting) > 40
