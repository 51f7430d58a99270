"""An asynchronous node: a `Node` whose generation runs in another process while this one trains.

Rounds and reports are the same. Generated rounds wait here, the oldest first, and each is trained on once, in order.
`capacity.py` decides how far generation may run ahead. With `max_staleness` 0 the two processes take turns and do
exactly what `Node` does.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from queue import Empty
from time import monotonic

from protocol.messages import Round
from swarm_node.common.errors import UserError
from swarm_node.node.capacity import Capacity
from swarm_node.node.generator_process import FromGenerator, GeneratedMessage, GeneratorProcess
from swarm_node.node.round import Node, read_waiting, write_waiting
from swarm_node.policy.policy import Policy
from swarm_node.policy.weights import SharedWeights
from swarm_node.rollouts.groups import Generated
from swarm_node.rollouts.reports import Overlap, RoundReport

MAX_AHEAD = 64  # rounds under way at once, whatever staleness allows: waiting rounds are held in memory
MAX_DEATHS = 3  # of the generator without a round generated in between


class GeneratorFailed(UserError):
    """The generator process cannot be kept alive."""


class AsynchronousNode:
    """Implements interfaces.Runner with a node and its generator process. Not for several threads."""

    def __init__(
        self,
        node: Node,
        policy: Policy,
        weights: SharedWeights,
        process: GeneratorProcess,
        max_staleness: int,
        warn: Callable[[str], None],
        max_rounds: int = 0,
    ) -> None:
        """
        Args:
            weights: those that `process` reads.
            warn: takes one line for each fault that was repaired.
            max_rounds: rounds from this one on are not generated; 0 for no end.
        """
        self.node = node
        self._policy, self._weights, self._process, self._warn = policy, weights, process, warn
        self._max_staleness, self._max_rounds = max_staleness, max_rounds
        self._generated: deque[tuple[Generated, float]] = deque()  # not yet trained on, with the idle time before each
        self._capacity = self._counts(Round(0))
        self._next = Round(0)  # the next round to order
        self._deaths = 0
        self._since = monotonic()
        self._idle = self._waited = 0.0  # of the round being trained on: the generator's, and ours for it, in seconds

    def start(self, done: Round, waiting: Sequence[str]) -> None:
        """Begin after `done` rounds. `waiting`: the next rounds, already generated, as a checkpoint keeps them."""
        self._generated = deque((read_waiting(text), 0.0) for text in waiting)
        self._capacity = self._counts(done)
        self._capacity.accepted += len(waiting)
        self._next = Round(done + len(waiting))
        self._weights.publish(self._policy)
        self._process.start()
        self._order()
        self._since = monotonic()

    def run_round(self, now: Round) -> RoundReport:
        generated = self._oldest(now)
        waiting = len(self._generated)
        report = self.node.consume(generated)
        self._weights.publish(self._policy)
        self._capacity.update()
        self._order()
        wall, self._since = monotonic() - self._since, monotonic()
        busy = sum(generated.seconds[phase] for phase in ("generate", "score"))
        generating, training = busy / max(busy + self._idle, 1e-9), 1 - min(1.0, self._waited / max(wall, 1e-9))
        return replace(report, overlap=Overlap(wall, generating, training, waiting))

    def waiting(self) -> list[str]:
        self._drain()
        return [write_waiting(generated) for generated, _ in self._generated]

    def close(self) -> None:
        self._process.stop()
        self._weights.close()

    def _counts(self, done: Round) -> Capacity:
        return Capacity(1, self._max_staleness, MAX_AHEAD, version=done, accepted=done)

    def _order(self) -> None:
        for _ in range(self._capacity.free()):
            if self._max_rounds and self._next >= self._max_rounds:
                return
            self._capacity.start(1)
            self._process.generate(self._next)
            self._next = Round(self._next + 1)

    def _oldest(self, now: Round) -> Generated:
        """The round to train on: the oldest that waits. A round is published when it comes from the generator."""
        began = monotonic()
        self._drain()
        while not self._generated:
            self._take(self._process.take(block=True))
        generated, self._idle = self._generated.popleft()
        if generated.round != now:
            raise RuntimeError(f"round {generated.round} came where round {now} was due")
        self._waited = monotonic() - began
        return generated

    def _drain(self) -> None:
        while True:
            try:
                self._take(self._process.take(block=False))
            except Empty:
                return

    def _take(self, message: FromGenerator | None) -> None:
        if isinstance(message, GeneratedMessage):
            self._deaths = 0
            self._capacity.finish(1)
            self._generated.append((self.node.publish(message.generated), message.idle))
        elif message is None:
            self._restart(self._process.stop())
        else:
            self._process.stop()
            if message.by_user:
                raise UserError(message.error)
            self._restart(message.error)

    def _restart(self, reason: str) -> None:
        """Starts another process, which generates the rounds that the dead one did not deliver."""
        lost = self._capacity.running
        self._capacity.lose(lost)
        self._next = Round(self._next - lost)
        self._deaths += 1
        if self._deaths >= MAX_DEATHS:
            raise GeneratorFailed(
                f"the generator process failed {self._deaths} times at round {self._next} ({reason}): "
                "see generator.log in the home folder, or run with --asynchronous.no-enabled"
            )
        self._warn(f"the generator process ended ({reason}); another one goes on with round {self._next}")
        self._process.start()
        self._order()
