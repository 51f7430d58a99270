"""The rounds of a contributor: questions of its own address, completions of a server or a person, scored here, and
published where they differ in reward. It signs like any other node, and trains nothing."""

from collections import Counter
from collections.abc import Callable, Sequence

from protocol.messages import Completion, PeerId, Question, RolloutGroup, Round
from swarm_node.node.rounds import Rounds
from swarm_node.rollouts.groups import Skipped
from swarm_node.rollouts.interfaces import Environment, Network

Complete = Callable[[Question, str], tuple[Completion, ...] | Skipped]


class Contributor:
    """Generates, scores, publishes."""

    def __init__(
        self, peer_id: PeerId, environment: Environment, network: Network, rounds: Rounds, questions: int
    ) -> None:
        self._peer_id, self._environment, self._network = peer_id, environment, network
        self._rounds, self._questions = rounds, questions
        self.published = 0
        self.skipped: Counter[str] = Counter()

    def round(self, complete: Complete) -> int:
        """Groups published."""
        now = self._rounds.begin()
        self._network.collect(now)  # nothing is done with it; it should not pile up
        questions = self._environment.sample(self._peer_id, now, self._questions)
        groups: list[RolloutGroup] = []
        for question, prompt in zip(questions, self._environment.prompts(questions), strict=True):
            made = prompt if isinstance(prompt, Skipped) else complete(question, prompt)
            group = made if isinstance(made, Skipped) else self._informative(question, made, now)
            if isinstance(group, Skipped):
                self.skipped[group.reason] += 1
                continue
            groups.append(group)
        if groups:  # a round without any has nothing to say, and wants nothing
            self._network.publish(groups, now)
        self.published += len(groups)
        return len(groups)

    def score(self, question: Question, texts: Sequence[str]) -> tuple[float, ...] | Skipped:
        """Rewards as every node would give them."""
        return self._environment.score([(question, texts)])[0]

    def _informative(
        self, question: Question, completions: tuple[Completion, ...], now: Round
    ) -> RolloutGroup | Skipped:
        if len(completions) < 2:
            return Skipped("one completion")
        rewards = self.score(question, [completion.text for completion in completions])
        if isinstance(rewards, Skipped):
            return rewards
        if len(set(rewards)) == 1:
            return Skipped("uninformative")
        return RolloutGroup(author=self._peer_id, round=now, question=question, completions=completions)
