"""A node whose text is a given number of updates old when it is trained on: an asynchronous one, without its timing.

A real asynchronous node writes with the newest weights it can have, which depends on how fast each side is. Here every
round is as stale as allowed, always, so that results are deterministic and speak of the worst case.
"""

from collections import deque
from collections.abc import Callable

from protocol.messages import Round
from swarm_node.node import Batch, Node, Own
from swarm_node.reports import RoundReport

Ahead = Callable[[int], int]
"""Rounds written, in all, by the time so many updates are done."""


def bounded(max_staleness: int) -> Ahead:
    """As admission allows: with 0 every round is written after the update before it."""
    return lambda updates: updates + max_staleness + 1


class LaggedNode:
    """Implements interfaces.Member. Counts its own rounds: those in which it takes part."""

    def __init__(self, node: Node, ahead: Ahead) -> None:
        self._node, self._ahead = node, ahead
        self._written: deque[Own] = deque()
        self._first: Round | None = None
        self._updates = self._count = 0

    def ask(self, now: Round) -> Own:
        """Write what may be written by now, and share it; the oldest of what waits."""
        if self._first is None:
            self._first = now
        while self._count < self._ahead(self._updates):
            self._written.append(self._node.share(self._node.write(Round(self._first + self._count))))
            self._count += 1
        return self._written.popleft()

    def hear(self, own: Own) -> Batch:
        return self._node.hear(own)

    def learn(self, batch: Batch) -> RoundReport:
        self._updates += 1
        return self._node.learn(batch)
