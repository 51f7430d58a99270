"""A lone learner that asks until enough of its groups are informative: dynamic sampling (DAPO, arXiv 2503.14476)."""

from collections import Counter
from dataclasses import replace

from protocol.messages import Round
from swarm_node.node.round import Node
from swarm_node.rollouts.groups import Generated
from swarm_node.rollouts.reports import RoundReport

MOST = 4  # times the questions of a round: its budget
APART = 1_000_000  # rounds between those that the first and the second batch of a round are asked as


class DynamicSampling:
    """Implements interfaces.Participant."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def produce(self, now: Round) -> Generated:
        """As many batches of questions as it takes; each has questions of its own."""
        found = self._node.generate(now)
        for more in range(1, MOST):
            if sum(group.informative for group in found.groups) >= self._node.config.local_groups:
                break
            again = self._node.generate(Round(now + more * APART))
            seconds = {phase: found.seconds.get(phase, 0.0) + spent for phase, spent in again.seconds.items()}
            skipped = Counter(found.skipped) + Counter(again.skipped)
            found = replace(found, groups=found.groups + again.groups, skipped=skipped, seconds=seconds)
        return found

    def consume(self, produced: Generated) -> RoundReport:
        return self._node.consume(produced)
