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

from pydantic import TypeAdapter

from protocol.messages import PeerId, Question, RolloutGroup, Round
from swarm_node.node.episodes import Divergence, complete, replayed
from swarm_node.rollouts.defence import LayeredDefence
from swarm_node.rollouts.groups import (
    DIVERGED,
    HUNG,
    NO_BETTER,
    PHASES,
    Counts,
    ExternalGroup,
    Generated,
    GeneratedGroup,
    Refused,
    RoundReport,
    ScoredGroup,
    Seconds,
    Selection,
    Skipped,
)
from swarm_node.rollouts.interfaces import Environment, Generator, Network, Trainer
from swarm_node.rollouts.pool import ExternalScoring, Reuse, RolloutPool, ScoringInStep, Unanswered
from swarm_node.rollouts.sampler import Sampler, choose_local
from swarm_node.settings import RoundConfig

WITHOUT_SIGNAL = "without signal"  # an external group whose completions score alike here

_GENERATED: TypeAdapter[Generated] = TypeAdapter(Generated)


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
            informative = [scored.group for scored in generated.groups if scored.informative]
            self.network.publish(informative, generated.round)
        return replace(generated, seconds=_sum(generated.seconds, seconds))

    def select(self, generated: Generated) -> Selection:
        """Local groups, and some of the external groups that have arrived, without what the defence
        refuses.
        """
        rng = Random(f"{self.seed}/{self.peer_id}/{generated.round}")
        with _timed(self.clock, "collect") as collecting:
            self.pool.add(self.network.collect(generated.round), generated.round)
        scoring = self.external or ScoringInStep(partial(score_external, self.environment))
        waiting = self.pool.candidates()
        own = [each.group for each in generated.groups]
        ready, failed = scoring.ready(waiting, self.config.external_groups, own)
        self.sampler.observe(generated.groups)
        local, others, wanted = self._choose_local(generated.groups, rng)
        considered: list[ScoredGroup] = []  # all that were scored
        passed: list[ScoredGroup] = []  # what the defence left of them
        chosen: list[ScoredGroup] = []
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
                spent += asked
                asked, scored = [external for external in asked if external.author not in hung], []
                for external, result in zip(asked, scoring.score(asked), strict=True):
                    if isinstance(result, ScoredGroup):
                        scored.append(result)
                        continue
                    faults[external.id] = result.reason
                    hung.update([external.author] if result.reason in HUNG else [])
                considered += scored
                screened, rejected = self.defence.screen(
                    generated.groups + generated.answers, scored, rng
                )
                passed, refused = passed + screened, refused + rejected
                chosen = self.sampler.choose(passed, wanted)
        self._settle(spent, passed, chosen, faults, hung, generated.round)
        again = self.reuse.select(wanted - len(chosen), self.clock(), rng)
        self.reuse.add(chosen, self.clock())
        compared = self._compared(chosen + again, generated.answers, rng)
        if self.fill_with_local:
            local += others[: max(0, wanted - len(compared))]
        skipped = Counter([*faults.values(), *(entry.reason for entry in refused)])
        skipped.update(WITHOUT_SIGNAL for scored in considered if not scored.informative)
        skipped.update(NO_BETTER for group in compared if not group.from_others)
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
        lengths = [tokens.written for group in written for tokens in group.tokens or () if tokens]
        endings = [completion.ended for group in written for completion in group.group.episodes]
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
        self, chosen: Sequence[ScoredGroup], answers: Sequence[ScoredGroup], rng: Random
    ) -> list[ScoredGroup]:
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

    def _settle(
        self,
        spent: Sequence[ExternalGroup],
        passed: Sequence[ScoredGroup],
        chosen: Sequence[ScoredGroup],
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
        self, groups: Sequence[ScoredGroup], rng: Random
    ) -> tuple[list[ScoredGroup], list[ScoredGroup], int]:
        """Local groups to train on, spare ones for places that no external group takes, and how
        many external groups to look for.
        """
        local, external = self.sampler.split(self.config.local_groups, self.config.external_groups)
        return *choose_local(groups, local, external, self.sampler.only_informative, rng), external

    def _complete(
        self, questions: Sequence[Question], now: Round
    ) -> tuple[list[ScoredGroup], Counts, Seconds]:
        """A scored local group for each question that could be built, completed and scored."""
        prompts, stream = self.environment.prompts(questions), f"{self.seed}/{self.peer_id}/{now}"
        skipped = Counter(prompt.reason for prompt in prompts if isinstance(prompt, Skipped))
        asked = [
            (q, prompt)
            for q, prompt in zip(questions, prompts, strict=True)
            if isinstance(prompt, str)
        ]
        with _timed(self.clock, "generate") as generating:
            generated = complete(self.environment, self.generator, asked, self.group_size, stream)
        groups, kept, written = [], [], []
        for (question, prompt), completed in zip(asked, generated, strict=True):
            if isinstance(completed, Skipped):
                skipped[completed.reason] += 1
                continue
            groups.append(
                RolloutGroup(
                    author=self.peer_id,
                    round=now,
                    question=question,
                    episodes=completed.completions,
                )
            )
            kept.append(prompt)
            written.append(completed)
        with _timed(self.clock, "score") as scoring:
            results = score_groups(self.environment, groups, kept, written)
        skipped.update(result.reason for result in results if isinstance(result, Skipped))
        scored = [result for result in results if isinstance(result, ScoredGroup)]
        return scored, skipped, _sum(generating, scoring)


def score_external(
    environment: Environment, asked: Sequence[ExternalGroup], divergence: Divergence | None = None
) -> list[ScoredGroup | Skipped]:
    """Scores external groups, their prompts rebuilt. `divergence` says which to leave out, and
    learns of the others.
    """
    left = [
        divergence is not None and divergence.leaves(external.author, external.question)
        for external in asked
    ]
    groups = [external.group for external, leave in zip(asked, left, strict=True) if not leave]
    results = score_groups(
        environment, groups, environment.prompts([group.question for group in groups])
    )
    for group, result in zip(groups, results, strict=True):
        if divergence is not None and environment.turns(group.question) > 1:
            divergence.note(group, result)
    scored = iter(results)
    return [Skipped(DIVERGED) if leave else next(scored) for leave in left]


def judging(
    environment: Environment, clock: Callable[[], float], odd: Callable[[list[str]], object]
) -> Callable[[Sequence[ExternalGroup]], list[ScoredGroup | Skipped]]:
    """`score_external` with a memory: see `Divergence`."""
    return partial(score_external, environment, divergence=Divergence(clock, odd))


def score_groups(
    environment: Environment,
    groups: Sequence[RolloutGroup],
    prompts: Sequence[str | Skipped],
    written: Sequence[GeneratedGroup] = (),
) -> list[ScoredGroup | Skipped]:
    """Score groups here, local and external ones alike: rewards never travel. Episodes of questions
    of several turns are played. `written`: the groups as this node generated them, in the same
    order; empty for external ones.
    """
    several = [place for place, group in enumerate(groups) if environment.turns(group.question) > 1]
    played = [
        (groups[place].question, [each.turns for each in groups[place].episodes])
        for place in several
    ]
    plays = dict(zip(several, environment.play(played) if played else (), strict=True))
    single = [place for place in range(len(groups)) if place not in plays]
    texts = [
        (groups[place].question, [each.turns[0].text for each in groups[place].episodes])
        for place in single
    ]
    rewards = dict(zip(single, environment.score(texts), strict=True))
    results: list[ScoredGroup | Skipped] = []
    for place, (group, prompt) in enumerate(zip(groups, prompts, strict=True)):
        known = (written[place].tokens, written[place].prompt_ids) if written else ()
        given = rewards.get(place)
        if isinstance(given, Skipped):
            results.append(given)
        elif isinstance(prompt, Skipped):
            results.append(prompt)
        elif given is None:
            results.append(replayed(group, prompt, plays[place], *known))
        else:
            results.append(ScoredGroup(group, prompt, given, *known))
    return results


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


def _by_task(groups: Sequence[ScoredGroup]) -> dict[str, float]:
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


def write_waiting(generated: Generated) -> str:
    """A generated round as JSON, for a checkpoint."""
    return _GENERATED.dump_json(generated).decode()


def read_waiting(text: str) -> Generated:
    """The inverse of `write_waiting`. ValueError."""
    return _GENERATED.validate_json(text)
