"""One node of the swarm. A round is train(select(publish(generate(round)))): values pass one way.

Generating needs no gradient and no peers. Only training changes the weights. So the phases may
overlap or interleave: the simulation does this with many nodes, asynchronous.py with the two halves
of one node. Nothing here waits for peers: the network returns what has arrived.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from statistics import fmean

from protocol.messages import PeerId, Question, Round
from swarm_node.common.batched import paired, routed
from swarm_node.node.episodes import (
    Divergence,
    complete,
    onward,
    plays_of,
    replayed,
)
from swarm_node.rollouts.cost import TOO_LONG, Lengths, Purse
from swarm_node.rollouts.defence import LayeredDefence
from swarm_node.rollouts.groups import (
    DIVERGED,
    HUNG,
    NO_BETTER,
    PHASES,
    Counts,
    Generated,
    Group,
    Refused,
    RoundReport,
    Seconds,
    Selection,
    Skipped,
)
from swarm_node.rollouts.interfaces import Environment, Generator, Network, Trainer
from swarm_node.rollouts.pool import ExternalScoring, Reuse, RolloutPool, ScoringInStep, Unanswered
from swarm_node.rollouts.sampler import Sampler, choose_local
from swarm_node.settings import RoundConfig

WITHOUT_SIGNAL = "without signal"  # an external group whose completions score alike here


@dataclass(frozen=True, slots=True)
class Node:
    """Implements interfaces.Runner and interfaces.Participant."""

    peer_id: PeerId
    seed: int
    environment: Environment
    generator: Generator
    trainer: Trainer
    network: Network
    pool: RolloutPool
    sampler: Sampler
    defence: LayeredDefence
    config: RoundConfig
    group_size: int
    clock: Callable[[], float]  # seconds
    reuse: Reuse = field(default_factory=lambda: Reuse(rounds=1, seconds=0.0))
    # Sees what a round trains on, and changes nothing
    watch: Callable[[Selection], None] | None = None
    external: ExternalScoring | None = None  # None: they are scored as they are selected
    fill_with_local: bool = True  # whether local groups take the places of missing external ones
    unanswered: Unanswered = field(default_factory=Unanswered)
    lengths: Lengths | None = None  # None: a round trains on external groups of any length

    def run_round(self, now: Round) -> RoundReport:
        return self.train(self.select(self.publish(self.generate(now, self.unanswered.ask()))))

    def produce(self, now: Round) -> Generated:
        return self.publish(self.generate(now, self.unanswered.ask()))

    def consume(self, produced: Generated) -> RoundReport:
        return self.train(self.select(produced))

    def waiting(self) -> list[str]:
        """See interfaces.Runner. Always empty: a round is generated and trained on in the same
        call.
        """
        return []

    def generate(self, now: Round, others: Sequence[Question] = ()) -> Generated:
        """Local groups: completions of this round's prompts, scored here. `others`: questions of
        other nodes, answered in place of own ones, so that comparing costs no time. As many own
        ones stay as local groups are trained on.
        """
        least = max(1, min(self.config.local_groups, self.config.questions))
        own = self.environment.sample(
            self.peer_id, now, max(least, self.config.questions - len(others))
        )
        groups, skipped, seconds = self._complete([*own, *others], now)
        asked = set(others)
        answers = [group for group in groups if group.question in asked]
        return Generated(
            now,
            [group for group in groups if group.question not in asked],
            skipped,
            seconds,
            answers,
        )

    def publish(self, generated: Generated) -> Generated:
        """Offer the informative groups to other peers."""
        with _timed(self.clock, "publish") as seconds:
            # Every node computes the same rewards, so a group that is uninformative here is so
            # everywhere.
            informative = [group for group in generated.groups if group.informative]
            self.network.publish([group.message() for group in informative], generated.round)
        return replace(generated, seconds=_sum(generated.seconds, seconds))

    def select(self, generated: Generated) -> Selection:
        """Local groups, and some of the external groups that have arrived, without what the defence
        refuses.
        """
        rng = Random(f"{self.seed}/{self.peer_id}/{generated.round}")
        self.sampler.observe(generated.groups)
        local, others, wanted = self._choose_local(generated.groups, rng)
        purse = self._purse(generated.groups, wanted)
        with _timed(self.clock, "collect") as collecting:
            taken, too_long = purse.admitted(self.network.collect(generated.round))
            self.pool.add(taken, generated.round)
        scoring = self.external or ScoringInStep(partial(score_external, self.environment))
        waiting = self.pool.candidates()
        ready, failed = scoring.ready(waiting, self.config.external_groups, generated.groups)
        considered: list[Group] = []  # all that were scored
        passed: list[Group] = []  # what the defence left of them
        chosen: list[Group] = []
        refused: list[Refused] = []
        spent = [external for external, _ in failed]
        # By id, why the group could not be scored
        faults = {external.id: reason for external, reason in failed}
        hung = {external.author for external, reason in failed if reason in HUNG}
        with _timed(self.clock, "score") as seconds_scoring:
            order = self.sampler.order(ready, rng)
            while order and len(chosen) < wanted:
                count = max(1, self.sampler.at_once(wanted - len(chosen)))
                asked, order = order[:count], order[count:]
                asked = purse.beside(chosen, asked)
                spent += asked
                asked, scored = [external for external in asked if external.author not in hung], []
                for external, result in paired(asked, scoring.score(asked)):
                    if isinstance(result, Group):
                        scored.append(result)
                        continue
                    faults[external.id] = result.reason
                    hung.update([external.author] if result.reason in HUNG else [])
                considered += scored
                screened, rejected = self.defence.screen(
                    generated.groups + generated.answers, scored, rng
                )
                passed, refused = passed + screened, refused + rejected
                chosen = self.sampler.choose(purse.affordable(passed), wanted)
        self._settle(spent, passed, chosen, faults, hung, generated.round)
        again = self.reuse.select(wanted - len(chosen), self.clock(), rng)
        again = purse.affordable([*chosen, *again])[len(chosen) :]
        self.reuse.add(chosen, self.clock())
        compared = self._compared(chosen + again, generated.answers, rng)
        if self.fill_with_local:
            local += others[: max(0, wanted - len(compared))]
        skipped = Counter([*faults.values(), *(entry.reason for entry in refused)])
        skipped.update(WITHOUT_SIGNAL for scored in considered if not scored.informative)
        skipped.update(NO_BETTER for group in compared if not group.from_others)
        skipped.update(TOO_LONG for _ in too_long)
        for external in too_long:
            self.network.verdict(external, False)
        seconds = _sum(generated.seconds, collecting, seconds_scoring)
        return Selection(generated, local, compared, refused, skipped, seconds, considered)

    def train(self, selection: Selection) -> RoundReport:
        """One update of the policy, and the report of the round."""
        with _timed(self.clock, "train") as seconds:
            step = self.trainer.update(selection.local + selection.external)
        if self.watch is not None:
            self.watch(selection)
        groups = selection.generated.groups
        written = groups + selection.generated.answers
        samples = [sample for group in written for sample in group.samples]
        lengths = [sample.tokens.written for sample in samples if sample.tokens]
        endings = [sample.episode.ended for sample in samples]
        skipped = (
            Counter(selection.generated.skipped)
            + Counter(selection.skipped)
            + Counter(step.skipped)
        )
        return RoundReport(
            peer_id=self.peer_id,
            round=selection.generated.round,
            reward=_mean([fmean(group.rewards) for group in groups]),
            reward_by_task=_by_task(groups),
            rollouts=len(lengths),
            generated_tokens=sum(lengths),
            mean_length=_mean(lengths),
            ended_share=_mean(endings),
            local_groups=len(selection.local),
            local_informative=sum(group.informative for group in selection.local),
            external_informative=sum(
                group.informative and group.from_others for group in selection.external
            ),
            informative_share=_mean([group.informative for group in groups]),
            pool_size=len(self.pool),
            skipped=dict(skipped),
            rejected=dict(self.network.rejections()),
            step=step,
            external_reward=_mean([fmean(group.rewards) for group in selection.considered]),
            external_considered=len(selection.considered),
            external_by_peer=_by_peer(selection),
            seconds=_sum(dict.fromkeys(PHASES, 0.0), selection.seconds, seconds),
        )

    def _compared(
        self, chosen: Sequence[Group], answers: Sequence[Group], rng: Random
    ) -> list[Group]:
        """The external groups that a round trains on: those chosen now or, where the defence
        compares them with local completions, those chosen before whose questions this round has
        answered.
        """
        if not self.defence.compares:
            return list(chosen)
        self.unanswered.add(chosen)
        return [
            self.defence.mix(local, external, rng)
            for local, external in self.unanswered.take(answers)
        ]

    def _purse(self, own: Sequence[Group], groups: int) -> Purse:
        """What this round may spend on so many external groups, in tokens."""
        given = self.config.external_tokens
        return Purse.of_round(own, groups, self.lengths, self.defence.adds, given)

    def _settle(
        self,
        spent: Sequence[Group],
        passed: Sequence[Group],
        chosen: Sequence[Group],
        faults: Mapping[bytes, str],
        hung: Collection[PeerId],
        now: Round,
    ) -> None:
        """Takes the groups that were looked at from the pool, except informative ones that passed
        the defence and were not chosen. Tells the network what the taken groups were worth.
        """
        used = {(scored.author, scored.question) for scored in chosen}
        waiting = {
            (scored.author, scored.question) for scored in passed if scored.informative
        } - used
        spent = [
            external for external in spent if (external.author, external.question) not in waiting
        ]
        self.pool.remove(spent)
        self.pool.shun(hung, now)
        for external in spent:
            useful = (external.author, external.question) in used
            self.network.verdict(external, useful, faults.get(external.id, ""))

    def _choose_local(
        self, groups: Sequence[Group], rng: Random
    ) -> tuple[list[Group], list[Group], int]:
        """Local groups to train on, spare ones for places that no external group takes, and how
        many external groups to look for.
        """
        local, external = self.sampler.split(self.config.local_groups, self.config.external_groups)
        return *choose_local(groups, local, external, self.sampler.only_informative, rng), external

    def _complete(
        self, questions: Sequence[Question], now: Round
    ) -> tuple[list[Group], Counts, Seconds]:
        """A scored local group for each question that could be built, completed and scored."""
        stream = f"{self.seed}/{self.peer_id}/{now}"
        prompts = self.environment.prompts(questions)
        asked = [
            prompt if isinstance(prompt, Skipped) else self._asked(question, prompt, now)
            for question, prompt in paired(questions, prompts)
        ]
        with _timed(self.clock, "generate") as generating:
            completed = onward(
                asked,
                lambda groups: complete(
                    self.environment, self.generator, groups, self.group_size, stream
                ),
            )
        with _timed(self.clock, "score") as scoring:
            results = onward(completed, partial(score_groups, self.environment))
        skipped = Counter(result.reason for result in results if isinstance(result, Skipped))
        scored = [result for result in results if isinstance(result, Group)]
        return scored, skipped, _sum(generating, scoring)

    def _asked(self, question: Question, prompt: str, now: Round) -> Group:
        """A local group that is not completed yet."""
        return Group(self.peer_id, now, question, prompt=prompt)


def score_external(
    environment: Environment, groups: Sequence[Group], divergence: Divergence | None = None
) -> list[Group | Skipped]:
    """Scores external groups, their prompts rebuilt. `divergence` says which to leave out, and
    learns of the others.
    """

    def leaves(group: Group) -> bool:
        return divergence is not None and divergence.leaves(group.author, group.question)

    def left(groups: Sequence[Group]) -> list[Group | Skipped]:
        return [Skipped(DIVERGED)] * len(groups)

    def others(groups: Sequence[Group]) -> list[Group | Skipped]:
        prompts = environment.prompts([group.question for group in groups])
        results = [
            _rebuilt(result, prompt)
            for result, prompt in paired(score_groups(environment, groups), prompts)
        ]
        for group, result in paired(groups, results):
            if divergence is not None:
                divergence.note(group, result)
        return results

    return routed(groups, leaves, {True: left, False: others})


def _rebuilt(result: Group | Skipped, prompt: str | Skipped) -> Group | Skipped:
    """The result of an external group with its prompt; `Skipped` where it has none."""
    if isinstance(result, Skipped):
        return result
    return prompt if isinstance(prompt, Skipped) else replace(result, prompt=prompt)


def judging(
    environment: Environment, clock: Callable[[], float], odd: Callable[[list[str]], object]
) -> Callable[[Sequence[Group]], list[Group | Skipped]]:
    """`score_external` with a memory: see `Divergence`."""
    return partial(score_external, environment, divergence=Divergence(clock, odd))


def score_groups(environment: Environment, groups: Sequence[Group]) -> list[Group | Skipped]:
    """The groups with rewards of this node, local and external ones alike: rewards never travel.
    Their episodes are played again.
    """
    return [replayed(group, plays) for group, plays in plays_of(environment, groups)]


@contextmanager
def _timed(clock: Callable[[], float], phase: str) -> Iterator[dict[str, float]]:
    """Seconds of the block under the name of its phase, filled in when the block ends."""
    seconds: dict[str, float] = {}
    start = clock()
    yield seconds
    seconds[phase] = clock() - start


def _sum(*parts: Seconds) -> Seconds:
    total: dict[str, float] = {}
    for part in parts:
        for phase, seconds in part.items():
            total[phase] = total.get(phase, 0.0) + seconds
    return total


def _by_task(groups: Sequence[Group]) -> dict[str, float]:
    rewards: dict[str, list[float]] = {}
    for group in groups:
        task = f"{group.question.dataset}/{group.question.config_id}"
        rewards.setdefault(task, []).append(fmean(group.rewards))
    return {task: fmean(values) for task, values in sorted(rewards.items())}


def _by_peer(selection: Selection) -> dict[PeerId, dict[str, int]]:
    found: dict[PeerId, Counter[str]] = {}
    for group in selection.considered:
        found.setdefault(group.author, Counter()).update(
            scored=1, informative=int(group.informative)
        )
    for refused in selection.refused:
        found.setdefault(refused.author, Counter()).update(refused=1)
    for group in selection.external:
        found.setdefault(group.author, Counter()).update(
            trained=int(group.informative and group.from_others)
        )
    return {peer: dict(counts) for peer, counts in sorted(found.items())}


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None
