"""The rounds of a contributor: questions of its own address, completions of a server, scored here, and
published where they differ in reward. It signs like any other node, and trains nothing."""

from collections import Counter
from collections.abc import Callable

from protocol.messages import Episode, PeerId, Question, RolloutGroup, Round
from swarm_node.common.errors import printable
from swarm_node.node.rounds import Rounds
from swarm_node.rollouts.groups import Skipped
from swarm_node.rollouts.interfaces import Environment, Network

MANY = 8  # groups in a row that teach nothing, when that is said for the first time
EXAMPLE = 60  # characters of a completion that is shown
SAME_TEXT, ALL_WRONG, ALL_RIGHT, AS_GOOD = "of one text", "all wrong", "all right", "of equal reward"
EASIER = "name easier tasks, or tell the model by --environment.system how to answer"
SEVERAL = Skipped("question of several turns: swarm-node run plays them")
REMEDIES = {  # what to change, by why a group teaches nothing
    SAME_TEXT: "raise --temperature",
    ALL_WRONG: EASIER,
    AS_GOOD: EASIER,
    ALL_RIGHT: "name harder tasks",
}

Complete = Callable[[str], tuple[Episode, ...] | Skipped]


class Contributor:
    """Generates, scores, publishes."""

    def __init__(
        self, peer_id: PeerId, environment: Environment, network: Network, rounds: Rounds, questions: int
    ) -> None:
        self._peer_id, self._environment, self._network = peer_id, environment, network
        self._rounds, self._questions = rounds, questions
        self.published = 0
        self.skipped: Counter[str] = Counter()
        self._in_vain: Counter[str] = Counter()  # groups since the last informative one, by what they were
        self._told = 0  # how many of them when that was last said
        self._example = ""  # a completion of the last of them

    def round(self, complete: Complete) -> int:
        """Groups published."""
        now = self._rounds.begin()
        self._network.collect(now)  # nothing is done with it; it should not pile up
        questions = self._environment.sample(self._peer_id, now, self._questions)
        groups: list[RolloutGroup] = []
        for question, prompt in zip(questions, self._environment.prompts(questions), strict=True):
            several = self._environment.turns(question) > 1
            made = prompt if isinstance(prompt, Skipped) else SEVERAL if several else complete(prompt)
            group = made if isinstance(made, Skipped) else self._informative(question, made, now)
            if isinstance(group, Skipped):
                self.skipped[group.reason] += 1
                self._in_vain.update([group.reason] if group.reason in REMEDIES else [])
                continue
            self._in_vain, self._told = Counter(), 0
            groups.append(group)
        if groups:  # a round without any has nothing to say, and wants nothing
            self._network.publish(groups, now)
        self.published += len(groups)
        return len(groups)

    def why_in_vain(self) -> str:
        """Said once more each time that twice as many groups in a row taught nothing: why, and what to change."""
        if (many := self._in_vain.total()) < max(MANY, 2 * self._told):
            return ""
        self._told = many
        found = ", ".join(f"{count} {reason}" for reason, count in self._in_vain.most_common())
        (reason, _), *_ = self._in_vain.most_common(1)
        return f"{many} groups in a row would teach nothing, {found}, such as {self._example!r}: {REMEDIES[reason]}"

    def _informative(self, question: Question, completions: tuple[Episode, ...], now: Round) -> RolloutGroup | Skipped:
        if len(completions) < 2:
            return Skipped("one completion")
        rewards = self._environment.score([(question, [completion.text for completion in completions])])[0]
        if isinstance(rewards, Skipped):
            return rewards
        if len(set(rewards)) == 1:
            self._example = printable(completions[0].text, EXAMPLE)
            alike = len({completion.text for completion in completions}) == 1
            return Skipped(SAME_TEXT if alike else {0.0: ALL_WRONG, 1.0: ALL_RIGHT}.get(rewards[0], AS_GOOD))
        return RolloutGroup(author=self._peer_id, round=now, question=question, episodes=completions)
