"""One node of the swarm. A round is train(select(publish(generate(round)))): values pass one way.

Generating needs no gradient and no peers. Only training changes the weights. So the phases may
overlap or interleave: the simulation does this with many nodes, asynchronous.py with the two halves
of one node. Nothing here waits for peers: the network returns what has arrived.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
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
from swarm_node.node.guided import Beginning, Guide
from swarm_node.rollouts.cost import TOO_LONG, Lengths, Purse
from swarm_node.rollouts.defence import LayeredDefence
from swarm_node.rollouts.groups import (
    DIVERGED,
    NO_BETTER,
    PHASES,
    Counts,
    Generated,
    Group,
    RoundReport,
    Seconds,
    Selection,
    Skipped,
)
from swarm_node.rollouts.inbox import COPY, Draw, Inbox, Verdict
from swarm_node.rollouts.interfaces import Environment, Generator, Network, Trainer
from swarm_node.rollouts.pairs import fewer, in_pairs
from swarm_node.rollouts.places import Places, filled_places
from swarm_node.rollouts.sampler import Sampler, Seen, choose_local
from swarm_node.rollouts.scoring_ahead import ExternalScoring, ScoringInStep
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
    inbox: Inbox
    sampler: Sampler
    defence: LayeredDefence
    config: RoundConfig
    group_size: int
    clock: Callable[[], float]  # seconds
    # See what a round trains on, before and after it does, and change nothing
    foresee: Callable[[Selection], None] | None = None
    watch: Callable[[Selection], None] | None = None
    external: ExternalScoring | None = None  # None: they are scored as they are selected
    fill_with_local: bool = True  # whether local groups take the places of missing external ones
    lengths: Lengths | None = None  # None: a round trains on external groups of any length
    guide: Guide | None = None  # None: no completion of a peer guides this node's

    def run_round(self, now: Round) -> RoundReport:
        return self.train(self.select(self.publish(self.generate(now, self.inbox.questions()))))

    def produce(self, now: Round) -> Generated:
        return self.publish(self.generate(now, self.inbox.questions()))

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
        ones stay as local groups are trained on. So do the questions of guided groups.
        """
        beginnings = self.guide.take() if self.guide else []
        count = self.own(len(others) + len(beginnings))
        own = self.environment.sample(self.peer_id, now, count)
        groups, skipped, seconds = self._complete([*own, *others], now)
        guided = list[Group]()
        if beginnings:
            guided, more_skipped, more_seconds = self._go_on(beginnings, now)
            skipped = Counter(skipped) + Counter(more_skipped)
            seconds = _sum(seconds, more_seconds)
        asked = set(others)
        answers = [group for group in groups if group.question in asked]
        return Generated(
            now,
            [group for group in groups if group.question not in asked],
            skipped,
            seconds,
            answers,
            guided,
        )

    def own(self, others: int) -> int:
        """How many own questions a round asks beside so many of other nodes."""
        least = max(1, min(self.config.local_groups, self.config.questions))
        return max(least, self.config.questions - others)

    def publish(self, generated: Generated) -> Generated:
        """Offer the informative groups to other peers."""
        with _timed(self.clock, "publish") as seconds:
            # Every node computes the same rewards, so a group that is uninformative here is so
            # everywhere.
            informative = [group for group in generated.groups if group.informative]
            self.network.publish([group.message() for group in informative], generated.round)
        return replace(generated, seconds=_sum(generated.seconds, seconds))

    def select(self, generated: Generated) -> Selection:
        """The training set of a round, as SAPO composes it (arXiv 2509.08721, Methodology).

        A node samples from its own rollouts and from those that the swarm shared with it. It scores
        the rollouts of others itself, since it trusts no reward but its own, and leaves out groups
        in which all completions score alike, which would teach nothing. No party gets more than a
        share of the places, however much it sends. The sampler says how many
        groups of either kind there are and in which order others' groups are considered, and the
        defence what of them may be trained on. A group of a peer may serve several quick rounds,
        and one that is too long for this machine serves none. Where too few are there, local groups
        take their places; with `round.fill` it is also the other way round (`places.py`).
        """
        inbox, now = self.inbox, generated.round
        rng = Random(f"{self.seed}/{self.peer_id}/{now}")
        purse = self._purse(generated.groups)
        with _timed(self.clock, "collect") as collecting:
            taken, too_long = purse.admitted(self.network.collect(now))
            inbox.arrive(taken, now)
        self.sampler.begin(Seen(now, generated.groups, inbox.peers()))
        places = self._places(generated, rng)
        usual = self.config.external_groups
        purse = purse.with_room_for(max(0, places.wanted - usual))
        with _timed(self.clock, "score") as scoring:
            draw = self._draw(generated, places, purse, rng)
        unwanted = [Verdict(group, useful=False) for group in too_long]
        for verdict in [*inbox.settle(draw, now), *unwanted]:
            self.network.verdict(verdict.group, verdict.useful, verdict.fault)
        serving = purse.affordable(inbox.serve(places.wanted, self.clock(), rng))
        external = self._compared(serving, generated.answers, rng)
        if pairs := self.config.external_pairs:
            external = [in_pairs(group, pairs, rng) for group in external]
        local = places.with_spare(len(external)) if self.fill_with_local else places.local
        if self.guide is not None:
            stream = Random(f"{self.seed}/{self.peer_id}/{now}/guided")
            self.guide.note(generated.groups, draw.passed, stream)
        seconds = _sum(generated.seconds, collecting, scoring)
        skipped = _left_out(draw, external, too_long)
        return Selection(
            generated, local, external, draw.refused, skipped, seconds, draw.considered
        )

    def train(self, selection: Selection) -> RoundReport:
        """One update of the policy, and the report of the round."""
        if self.foresee is not None:
            self.foresee(selection)
        with _timed(self.clock, "train") as seconds:
            step = self.trainer.update(selection.local + selection.external)
        if self.watch is not None:
            self.watch(selection)
        groups = selection.generated.groups
        written = groups + selection.generated.answers + selection.generated.guided
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
            pool_size=len(self.inbox),
            skipped=dict(skipped),
            rejected=dict(self.network.rejections()),
            step=step,
            external_reward=_mean([fmean(group.rewards) for group in selection.considered]),
            external_considered=len(selection.considered),
            external_by_peer=_by_peer(selection),
            guided_informative=sum(group.informative for group in selection.generated.guided),
            seconds=_sum(dict.fromkeys(PHASES, 0.0), selection.seconds, seconds),
        )

    def _purse(self, own: Sequence[Group]) -> Purse:
        """What this round may spend on external groups, in tokens."""
        groups, given = self.config.external_groups, self.config.external_tokens
        added = fewer(self.defence.adds, 2 * self.config.external_pairs)
        return Purse.of_round(own, groups, self.lengths, added, given)

    def _draw(self, generated: Generated, places: Places, purse: Purse, rng: Random) -> Draw:
        """Considers groups of peers in the sampler's order, parties in turn, until those that the
        round has places for are chosen or the purse is spent. What does not fit into it any more,
        or is more than a party's share, waits for the next round.
        """
        wanted = places.wanted
        ready = max(wanted, self.config.external_groups)
        scoring = self.external or ScoringInStep(partial(score_external, self.environment))
        candidates = scoring.candidates(
            self.inbox, ready, generated.groups, self.sampler.reads_rewards
        )
        written_here = generated.groups + generated.answers
        draw = self.inbox.draw()
        order = self.inbox.in_turn(self.sampler.order(candidates, rng))
        while order and (missing := wanted - len(draw.chosen)) > 0:
            count = max(1, self.sampler.at_once(missing))
            batch, order = order[:count], order[count:]
            affordable = purse.beside(draw.chosen, batch)
            scored = self.inbox.look(draw, affordable, scoring.score)
            passed, refused = self.defence.screen(written_here, scored, rng)
            draw.passed += passed
            draw.refused += refused
            draw.chosen = self.sampler.choose(purse.affordable(draw.passed), wanted)
        return draw

    def _compared(
        self, serving: Sequence[Group], answers: Sequence[Group], rng: Random
    ) -> list[Group]:
        """The external groups that a round trains on: those that serve it or, where the defence
        compares them with local completions, those of earlier rounds whose questions this round has
        answered.
        """
        if not self.defence.compares:
            return list(serving)
        self.inbox.compare(serving)
        return [
            self.defence.mix(local, external, rng)
            for local, external in self.inbox.answered(answers)
        ]

    def _places(self, generated: Generated, rng: Random) -> Places:
        """The places of a round that generated this, with local groups in theirs. Guided groups
        that teach take places of local ones.
        """
        local, external = self.sampler.split(self.config.local_groups, self.config.external_groups)
        only_informative = self.sampler.only_informative
        chosen, spare = choose_local(generated.groups, local, external, only_informative, rng)
        chosen += [group for group in generated.guided if group.informative]
        most = self.config.fill if self.config.external_groups else 0
        return Places(chosen, spare, external, filled_places(local, chosen, most))

    def _complete(
        self, questions: Sequence[Question], now: Round
    ) -> tuple[list[Group], Counts, Seconds]:
        """A scored local group for each question that could be built, completed and scored."""

        def written(groups: list[Group]) -> list[Group | Skipped]:
            stream = self._stream(now)
            return complete(self.environment, self.generator, groups, self.group_size, stream)

        return self._scored(self._prompted(questions, now), written)

    def _go_on(
        self, beginnings: Sequence[Beginning], now: Round
    ) -> tuple[list[Group], Counts, Seconds]:
        """A scored guided group for each beginning whose question could be built."""
        guide = self.guide
        assert guide is not None
        by_question = {beginning.question: beginning for beginning in beginnings}

        def written(groups: list[Group]) -> list[Group | Skipped]:
            given = [by_question[group.question] for group in groups]
            stream = self._stream(now)
            return guide.complete(self.generator, groups, given, self.group_size, stream)

        return self._scored(self._prompted(list(by_question), now), written)

    def _prompted(self, questions: Sequence[Question], now: Round) -> list[Group | Skipped]:
        """A local group for each question, not completed yet."""
        prompts = self.environment.prompts(questions)
        return [
            prompt if isinstance(prompt, Skipped) else self._asked(question, prompt, now)
            for question, prompt in paired(questions, prompts)
        ]

    def _scored(
        self,
        asked: Sequence[Group | Skipped],
        written: Callable[[list[Group]], list[Group | Skipped]],
    ) -> tuple[list[Group], Counts, Seconds]:
        """The groups that `written` completes, scored; how many were skipped, and why."""
        with _timed(self.clock, "generate") as generating:
            completed = onward(asked, written)
        with _timed(self.clock, "score") as scoring:
            results = onward(completed, partial(score_groups, self.environment))
        skipped = Counter(result.reason for result in results if isinstance(result, Skipped))
        scored = [result for result in results if isinstance(result, Group)]
        return scored, skipped, _sum(generating, scoring)

    def _stream(self, now: Round) -> str:
        """The name of the random stream of a round's completions."""
        return f"{self.seed}/{self.peer_id}/{now}"

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


def _left_out(draw: Draw, external: Sequence[Group], too_long: Sequence[Group]) -> Counts:
    """Why groups of peers are not among those to train on, and how many for each reason."""
    reasons = Counter(draw.faults.values())
    reasons.update(TOO_LONG for _ in too_long)
    reasons.update(refused.reason for refused in draw.refused)
    reasons.update(COPY for _ in draw.copies)
    reasons.update(WITHOUT_SIGNAL for group in draw.considered if not group.informative)
    reasons.update(NO_BETTER for group in external if not group.from_others)
    return reasons


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
