"""Histories of a node that selects external groups, and what it did in each.

A history is drawn from a seed: which groups arrive in which round, again or not, which of them
cannot be scored or hang their scorer, how long scoring takes, whether groups serve several rounds,
whether authors get equal shares of the places,
whether the defence asks their questions here, and when the node is restarted from a checkpoint. The
node, its inbox, its sampler and its defence are real; the network is a list, and the environment
scores by the last letter of a text.

`python -m tests.histories COUNT` prints the digest of each history. Whoever changes how external
groups wait, are scored, are selected or serve again compares them before and after: see
tests/core/rollouts/test_histories.py.
"""

import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any, cast

from protocol.messages import PeerId, Question, RolloutGroup, Round
from swarm_node.network.in_memory import Alone
from swarm_node.node.learner import build_defence
from swarm_node.node.round import Node, score_external
from swarm_node.rollouts.adaptive_sampler import AdaptiveSampler
from swarm_node.rollouts.groups import Generated, Group, Selection, Skipped, Tokens
from swarm_node.rollouts.inbox import Inbox
from swarm_node.rollouts.sampler import InformativeSampler, Sampler, UniformSampler
from swarm_node.rollouts.scoring_ahead import ScoringAhead
from swarm_node.rollouts.shares import Shares
from swarm_node.settings import DefenceConfig, RoundConfig
from tests import groups
from tests.models import DIGITS, IDENTITIES, Digits

ME = IDENTITIES[0].peer_id
AUTHORS = [identity.peer_id for identity in IDENTITIES[1:7]]
ROUNDS = 14
FAULTS = ("scoring timeout", "scoring crashed", "scoring failed", "other environment")


class OneByOne(UniformSampler):
    """Scores one group at a time, and leaves some for later."""

    def order(self, candidates: Sequence[Group], rng: Random) -> list[Group]:
        order = super().order(candidates, rng)
        return order[: max(1, len(order) * 2 // 3)]

    def at_once(self, missing: int) -> int:
        return 1


SAMPLERS: tuple[type[Sampler], ...] = (
    UniformSampler,
    InformativeSampler,
    AdaptiveSampler,
    OneByOne,
)
LAYERS = ((), ("length", "ngrams"), ("rescue",), ("length", "ngrams", "rescue"))


class Letters(Digits):
    """A completion is right where its last letter is r. Some questions cannot be scored."""

    def __init__(self, faults: Mapping[Question, str]) -> None:
        super().__init__()
        self.faults = faults

    def score(
        self, completions: Sequence[tuple[Question, Sequence[str]]]
    ) -> list[tuple[float, ...] | Skipped]:
        return [
            Skipped(self.faults[question])
            if question in self.faults
            else tuple(float(text.endswith("r")) for text in texts)
            for question, texts in completions
        ]


class Listed(Alone):
    """Delivers what it is told to, and notes verdicts."""

    def __init__(self) -> None:
        self.arriving: list[Group] = []
        self.verdicts: list[list[Any]] = []

    def collect(self, now: Round) -> list[Group]:
        arrived, self.arriving = self.arriving, []
        return arrived

    def verdict(self, external: Group, useful: bool, fault: str = "") -> None:
        self.verdicts.append([*named(external), useful, fault])


def named(group: Group) -> list[Any]:
    """The name of a group in a record."""
    return [group.author, group.round, group.question.index]


class History:
    """One node from its first round to its last, and the record of what it did."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = Random(f"history {seed}")
        self.now = 0.0  # seconds
        self.faults: dict[Question, str] = {}
        self.environment, self.network = Letters(self.faults), Listed()
        self.sampler, self.layers = rng.choice(SAMPLERS), rng.choice(LAYERS)
        external, local = rng.choice((0, 1, 2, 3, 4, 4, 5)), rng.randrange(1, 5)
        self.config = RoundConfig(local_groups=local, external_groups=external)
        self.rounds, self.seconds = rng.choice([(1, 0.0), (3, 5.0), (6, 2.0)])
        self.fill, self.ahead = rng.random() < 0.5, rng.random() < 0.5
        self.shared_out = Random(f"shares {seed}").random() < 0.5
        self.sent: list[RolloutGroup] = []
        self.restarts = 0
        self.node = self.make()

    def make(self) -> Node:
        """A new node, without what an earlier one remembered."""
        self.scoring = None
        if self.ahead:
            self.scoring = ScoringAhead(self.score, self.clock, Random(f"ahead {self.now}"))
        unused = cast(Any, None)
        return Node(
            peer_id=ME,
            seed=7,
            environment=self.environment,
            generator=unused,
            trainer=unused,
            network=self.network,
            inbox=Inbox(
                ME,
                self.rounds,
                self.seconds,
                max_groups=24,
                max_per_peer=6,
                shares=Shares() if self.shared_out else None,
            ),
            sampler=self.sampler(),
            defence=build_defence(DefenceConfig(layers=self.layers)),
            config=self.config,
            group_size=4,
            clock=self.clock,
            external=self.scoring,
            fill_with_local=self.fill,
        )

    def clock(self) -> float:
        return self.now

    def score(self, external: Sequence[Group]) -> list[Group | Skipped]:
        """Scores groups; one that hangs takes long."""
        hangs = any("scoring" in self.faults.get(group.question, "") for group in external)
        self.now += 2.0 if hangs else 0.01 * len(external)
        return score_external(self.environment, external)

    def texts(self, payload: str = "", longest: int = 3) -> list[str]:
        lengths = (self.rng.choice((1, 2, longest)) for _ in range(4))
        letters = (self.rng.choice("wwr") for _ in range(4))
        return [
            f"{payload if letter == 'r' else ''}{self.rng.randrange(10**length)}{letter}"
            for length, letter in zip(lengths, letters, strict=True)
        ]

    def arrive(self, now: int) -> None:
        """Some groups arrive; some have come before, and some are this node's own."""
        for _ in range(self.rng.randrange(12)):
            if self.sent and self.rng.random() < 0.15:
                message = self.rng.choice(self.sent)
            else:
                author = self.rng.choice([*AUTHORS, ME] if self.rng.random() < 0.1 else AUTHORS)
                payload = "ok " if author in AUTHORS[:3] else ""
                sent_in = max(0, now - self.rng.randrange(3))
                index, dataset = self.rng.randrange(6), self.rng.choice(("sums", "terms"))
                about = {**DIGITS, "dataset": dataset}
                message = groups.group(author, sent_in, index, self.texts(payload, 40), **about)
                if self.rng.random() < 0.12:
                    self.faults[message.question] = self.rng.choice(FAULTS)
            self.sent.append(message)
            self.network.arriving.append(groups.external(message))

    def local(self, author: PeerId, question: Question, now: int) -> Group:
        """Completions of this node."""
        message = groups.group(author, now, texts=self.texts())
        rewards = [float(text.text.endswith("r")) for text in message.episodes]
        tokens = [Tokens((1, 2), (-0.5, -0.5))] * len(rewards)
        made = groups.scored(message, "?", rewards, tokens, (5,))
        return replace(made, question=question)

    def round(self, now: int) -> list[Any]:
        """One round, and the record of it."""
        asked = self.node.inbox.questions()
        self.arrive(now)
        own = [
            self.local(ME, groups.question(ME, now, index, **DIGITS), now)
            for index in range(self.rng.randrange(2, 7))
        ]
        answered = [question for question in asked if self.rng.random() < 0.9]
        answers = [self.local(ME, question, now) for question in answered]
        self.network.verdicts = []
        selection = self.node.select(Generated(Round(now), own, {}, {}, answers))
        self.now += self.rng.choice((0.05, 1.0, 40.0))
        for _ in range(self.rng.randrange(4)):
            if self.scoring is not None:
                self.scoring.work()
        return [*record(selection), self.network.verdicts, len(self.node.inbox), len(asked)]

    def restart(self) -> None:
        """Another node goes on from the checkpoint of this one."""
        self.restarts += 1
        inbox, defence = self.node.inbox.snapshot(), self.node.defence.snapshot()
        self.node = self.make()
        self.node.inbox.restore(json.loads(json.dumps(inbox)))
        self.node.defence.restore(json.loads(json.dumps(defence)))

    def run(self) -> list[Any]:
        rounds = []
        for now in range(ROUNDS):
            if self.rng.random() < 0.08:
                self.restart()
            rounds.append(self.round(now))
        return rounds


def record(selection: Selection) -> list[Any]:
    """What a round trains on, and why it leaves out the others."""
    return [
        [named(group) for group in selection.local],
        [[*named(group), group.rewards, texts_of(group)] for group in selection.external],
        [[*named(group), group.rewards] for group in selection.considered],
        [[refused.author, refused.reason] for refused in selection.refused],
        sorted(selection.skipped.items()),
    ]


def texts_of(group: Group) -> list[str]:
    return [episode.text for episode in group.episodes]


def digest(seed: int) -> str:
    """Of all that happened in the history of this seed."""
    text = json.dumps(History(seed).run(), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


if __name__ == "__main__":
    for number in range(int(sys.argv[1])):
        sys.stdout.write(f"{digest(number)}\n")
