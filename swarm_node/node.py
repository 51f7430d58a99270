"""One node of the swarm. A round is: ask, hear, learn, where to ask is to write and to share.

Writing needs no gradient and no peers, `learn` is one update of the policy; in turn they are the synchronous loop.
Values pass along, one way, so that whoever drives a node may overlap or interleave them: the simulation does with many
nodes, asynchronous/ with the two halves of one.
Nothing here waits for anybody: the network gives what has arrived.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from statistics import fmean

from protocol.messages import PeerId, Question, RolloutGroup, Round
from swarm_node.interfaces import Defence, Environment, Generator, Network, Sampler, Trainer
from swarm_node.reports import RoundReport
from swarm_node.rollouts.defence import Refused
from swarm_node.rollouts.groups import ScoredGroup, Skipped, Tokens
from swarm_node.rollouts.pool import RolloutPool
from swarm_node.rollouts.samplers import choose_local
from swarm_node.settings import RoundConfig

REWARD_DIGITS = 6  # 0.1 + 0.2 and 0.3 are one reward: what differs by rounding alone must not look like signal


@dataclass(slots=True)
class Ledger:
    """What a round cost and what it left out; filled on the way, read for the report."""

    skipped: Counter[str] = field(default_factory=Counter)
    seconds: dict[str, float] = field(
        default_factory=lambda: dict.fromkeys(("generate", "judge", "share", "train"), 0.0)
    )


@dataclass(frozen=True, slots=True)
class Own:
    """What this node wrote and judged in a round."""

    round: Round
    groups: list[ScoredGroup]
    ledger: Ledger


@dataclass(frozen=True, slots=True)
class Batch:
    """The training set of a round."""

    own: Own
    local: list[ScoredGroup]
    external: list[ScoredGroup]
    refused: list[Refused]  # of others, by the defence


@dataclass(frozen=True, slots=True)
class Node:
    """Implements interfaces.Runner."""

    peer_id: PeerId
    seed: int
    environment: Environment
    generator: Generator
    trainer: Trainer
    network: Network
    pool: RolloutPool
    sampler: Sampler
    defence: Defence
    config: RoundConfig
    group_size: int
    clock: Callable[[], float]  # seconds

    def run_round(self, now: Round) -> RoundReport:
        return self.learn(self.hear(self.ask(now)))

    def waiting(self) -> list[str]:
        """See interfaces.Runner: what it writes it trains on in the same round."""
        return []

    def ask(self, now: Round) -> Own:
        return self.share(self.write(now))

    def write(self, now: Round) -> Own:
        """Ask, answer, judge."""
        ledger = Ledger()
        questions = self.environment.sample(self.peer_id, now, self.config.questions)
        groups = self._answer(questions, self.group_size, f"{self.seed}/{self.peer_id}/{now}", now, ledger)
        return Own(now, groups, ledger)

    def share(self, own: Own) -> Own:
        with self._timed(own.ledger, "share"):
            # A group without signal here has none anywhere, rewards being made by all alike: nobody would train on it.
            self.network.publish([scored.group for scored in own.groups if scored.has_signal], own.round)
        return own

    def hear(self, own: Own) -> Batch:
        """Listen, and choose what to train on: own groups, and of those of others what the defence lets be."""
        rng = Random(f"{self.seed}/{self.peer_id}/{own.round}")
        with self._timed(own.ledger, "share"):
            self.pool.add(self.network.collect(own.round), own.round)
        config, candidates = self.config, self.pool.candidates()
        alone = config.fill_with_own and not candidates
        choice = choose_local(
            own.groups,
            config.local_groups + (config.external_groups if alone else 0),
            0 if alone else config.external_groups,
            informative_only=config.local_sampler == "informative",
            match=config.external_sampler == "matched",
            rng=rng,
        )
        refused: list[Refused] = []

        faults: dict[tuple[PeerId, Question], str] = {}

        def judge(asked: Sequence[RolloutGroup]) -> list[ScoredGroup]:
            screened = self.defence.screen(own.groups, self._judge(asked, own.ledger, faults=faults), rng)
            refused.extend(screened.refused)
            return screened.groups

        with self._timed(own.ledger, "judge"):
            draw = self.sampler.draw(choice.external, candidates, judge, rng)
        self.pool.remove(draw.spent)
        own.ledger.skipped.update(entry.reason for entry in refused)
        external = self.defence.regroup(draw.groups, lambda heard, size: self._attempt(heard, size, own), rng)
        used = {(scored.author, scored.question) for scored in draw.groups}
        for group in draw.spent:
            name = (group.author, group.question)
            self.network.judged(group, useful=name in used, fault=faults.get(name, ""))
        return Batch(own, choice.groups, external, refused)

    def learn(self, batch: Batch) -> RoundReport:
        """One update of the policy, and the account of the round."""
        own, ledger = batch.own, batch.own.ledger
        with self._timed(ledger, "train"):
            step = self.trainer.update(batch.local + batch.external)
        lengths = [len(tokens.ids) for group in own.groups for tokens in group.own_tokens if tokens]
        endings = [completion.ended for group in own.groups for completion in group.group.completions]
        return RoundReport(
            peer_id=self.peer_id,
            round=own.round,
            reward=_mean([fmean(group.rewards) for group in own.groups]),
            reward_by_task=_by_task(own.groups),
            rollouts=len(lengths),
            generated_tokens=sum(lengths),
            mean_length=_mean(lengths),
            ended_share=_mean(endings),
            local_groups=len(batch.local),
            local_informative=sum(group.has_signal for group in batch.local),
            external_informative=sum(group.has_signal for group in batch.external),
            informative_share=_mean([group.has_signal for group in own.groups]),
            pool_size=len(self.pool),
            skipped=dict(ledger.skipped + Counter(step.skipped)),
            rejected=dict(self.network.rejections()),
            step=step,
            seconds=ledger.seconds,
        )

    def _attempt(self, heard: Sequence[ScoredGroup], size: int, own: Own) -> list[ScoredGroup]:
        """Own completions to the questions of others."""
        stream = f"{self.seed}/{self.peer_id}/{own.round}/attempt"
        return self._answer([group.question for group in heard], size, stream, own.round, own.ledger)

    def _answer(
        self, questions: Sequence[Question], size: int, stream: str, now: Round, ledger: Ledger
    ) -> list[ScoredGroup]:
        with self._timed(ledger, "generate"):
            written = self._write(questions, size, stream, now, ledger)
        with self._timed(ledger, "judge"):
            return self._judge([group for group, _ in written], ledger, [tokens for _, tokens in written])

    def _write(
        self, questions: Sequence[Question], size: int, stream: str, now: Round, ledger: Ledger
    ) -> list[tuple[RolloutGroup, tuple[Tokens, ...]]]:
        """A group per question that could be built and answered."""
        asked: list[tuple[Question, str]] = []
        for question, prompt in zip(questions, self.environment.prompts(questions), strict=True):
            if isinstance(prompt, Skipped):
                ledger.skipped[prompt.reason] += 1
            else:
                asked.append((question, prompt))
        answers = self.generator.generate([prompt for _, prompt in asked], size, stream)
        written = []
        for (question, _), answer in zip(asked, answers, strict=True):
            if isinstance(answer, Skipped):
                ledger.skipped[answer.reason] += 1
            else:
                group = RolloutGroup(author=self.peer_id, round=now, question=question, completions=answer.completions)
                written.append((group, answer.tokens))
        return written

    def _judge(
        self,
        groups: Sequence[RolloutGroup],
        ledger: Ledger,
        tokens: Sequence[tuple[Tokens, ...]] | None = None,
        faults: dict[tuple[PeerId, Question], str] | None = None,
    ) -> list[ScoredGroup]:
        """Score groups here, whoever wrote them: rewards never travel. Why one could not be judged goes to `faults`."""
        questions = [group.question for group in groups]
        texts = [[completion.text for completion in group.completions] for group in groups]
        judged = self.environment.score(list(zip(questions, texts, strict=True)))
        prompts = self.environment.prompts(questions)
        scored = []
        for index, (group, prompt, reward) in enumerate(zip(groups, prompts, judged, strict=True)):
            skipped = next((each for each in (reward, prompt) if isinstance(each, Skipped)), None)
            if skipped is not None:
                ledger.skipped[skipped.reason] += 1
                if faults is not None:
                    faults[group.author, group.question] = skipped.reason
            else:
                assert isinstance(prompt, str) and isinstance(reward, tuple)
                rewards = tuple(round(value, REWARD_DIGITS) for value in reward)
                scored.append(ScoredGroup(group, prompt, rewards, tokens[index] if tokens is not None else None))
        return scored

    @contextmanager
    def _timed(self, ledger: Ledger, phase: str) -> Iterator[None]:
        start = self.clock()
        try:
            yield
        finally:
            ledger.seconds[phase] += self.clock() - start


def _by_task(groups: Sequence[ScoredGroup]) -> dict[str, float]:
    rewards: dict[str, list[float]] = {}
    for group in groups:
        task = f"{group.question.dataset}/{group.question.config_id}"
        rewards.setdefault(task, []).append(fmean(group.rewards))
    return {task: fmean(values) for task, values in sorted(rewards.items())}


def _mean(values: Sequence[float]) -> float:
    return fmean(values) if values else 0.0
