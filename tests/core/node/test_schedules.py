"""The trainer's half of an asynchronous node under every schedule of generation and deaths."""

import sys
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from queue import Empty

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.messages import Episode, Question, Round
from swarm_node.common.channel import Failed
from swarm_node.common.errors import UserError
from swarm_node.network.in_memory import Alone
from swarm_node.node.asynchronous import MAX_DEATHS, AsynchronousNode, GeneratorFailed
from swarm_node.node.generator import GENERATOR, GeneratedMessage, GeneratorProcess, GeneratorSetup
from swarm_node.node.round import Node
from swarm_node.policy.weights import SharedWeights
from swarm_node.rollouts.defence import LayeredDefence, RescueLayer
from swarm_node.rollouts.groups import Completions, Sample, StepReport, Tokens
from swarm_node.rollouts.inbox import Inbox
from swarm_node.rollouts.sampler import UniformSampler
from swarm_node.settings import RoundConfig
from tests.groups import tokens_of
from tests.models import IDENTITIES, Digits, text_group, tiny_policy

POLICY = tiny_policy()


class Writer:
    """A generator without a model, that notes the version it generated with."""

    def __init__(self) -> None:
        self.version = 0

    def open(self, *, goes_on):
        assert not goes_on
        return self.generate

    def generate(self, prompts, group_size, stream):
        tokens = Tokens((5,), (-1.0,), (self.version,))
        texts = tuple(
            Episode.of(text=str(k) if k % 2 else "x", ended=True) for k in range(group_size)
        )
        return [
            Completions((1,), tuple(Sample(text, tokens=tokens) for text in texts)) for _ in prompts
        ]


class Counter:
    """A trainer without a model, that notes the staleness of what it is given."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, int]] = []  # round, staleness

    def update(self, groups):
        (number,) = {group.round for group in groups}
        (version,) = {
            v for group in groups for tokens in tokens_of(group) if tokens for v in tokens.versions
        }
        self.seen.append((number, POLICY.version - version))
        POLICY.version += 1
        return StepReport()


class Told(Alone):
    """A network that records the calls to it."""

    def __init__(self) -> None:
        self.rounds: list[int] = []

    def publish(self, groups, now) -> None:
        self.rounds.append(now)


def node_of(trainer, network=None) -> Node:
    return Node(
        peer_id=IDENTITIES[0].peer_id,
        seed=0,
        environment=Digits(),
        generator=Writer(),
        trainer=trainer,
        network=network or Alone(),
        inbox=Inbox(IDENTITIES[0].peer_id),
        sampler=UniformSampler(),
        defence=LayeredDefence([]),
        config=RoundConfig(questions=2, local_groups=2, external_groups=0),
        group_size=2,
        clock=lambda: 0.0,
    )


class ScriptedProcess:
    """A generator process that follows a script whenever `take` is called: w(rite), d(ie) or
    n(othing).
    """

    def __init__(self, script: str, weights: SharedWeights) -> None:
        self._script, self._weights = deque(script), weights
        self._orders: deque[tuple[Round, Sequence[Question]]] = deque()
        self._writer = node_of(Counter())
        self.starts = 0

    def start(self) -> None:
        self.starts += 1
        self._orders.clear()

    def generate(self, now: Round, others: Sequence[Question], tasks: Sequence[str] = ()) -> None:
        assert not tasks, "nothing chooses tasks here"
        self._orders.append((now, others))

    def take(self, block: bool):
        while True:
            step = self._script.popleft() if self._script else "w"
            if step == "d":
                return None
            if step == "w" and self._orders:
                self._writer.generator.version = self._weights.version
                message = GeneratedMessage(self._writer.generate(*self._orders.popleft()), idle=0.0)
                return GENERATOR.up.decode(GENERATOR.up.encode(message)[4:])
            if not block:
                raise Empty

    def stop(self) -> str:
        return "killed"


def driver_of(script: str, max_staleness: int, trainer=None, network=None, max_rounds: int = 0):
    POLICY.version = 0
    weights = SharedWeights.create(POLICY)
    process, warnings = ScriptedProcess(script, weights), []
    node = node_of(trainer or Counter(), network)
    return AsynchronousNode(
        node, POLICY, weights, process, max_staleness, warnings.append, max_rounds
    ), warnings


@settings(max_examples=60, deadline=None)
@given(st.text("wwwdn", max_size=40), st.integers(0, 4))
def test_whatever_happens_each_round_is_trained_on_once_in_order_and_no_staler_than_allowed(
    script, eta
) -> None:
    trainer, network = Counter(), Told()
    driver, warnings = driver_of(script.replace("dd", "d"), eta, trainer, network, max_rounds=8)
    driver.start(Round(0), ())
    with suppress(GeneratorFailed):
        for now in range(8):
            driver.run_round(Round(now))
        assert len(trainer.seen) == 8
    assert [number for number, _ in trainer.seen] == list(range(len(trainer.seen)))
    assert all(0 <= staleness <= eta for _, staleness in trainer.seen)
    assert network.rounds == sorted(set(network.rounds))  # no round was published twice
    assert len(warnings) == driver._process.starts - 1
    driver.close()


@settings(max_examples=30, deadline=None)
@given(st.text("wwwn", max_size=30), st.integers(0, 3), st.integers(1, 5))
def test_after_a_kill_the_checkpoint_goes_on_with_the_rounds_that_were_waiting(
    script, eta, killed_at
) -> None:
    first = Counter()
    driver, _ = driver_of(script, eta, first)
    driver.start(Round(0), ())
    for now in range(killed_at):
        driver.run_round(Round(now))
    waiting, version = driver.waiting(), POLICY.version
    driver.close()
    assert len(waiting) <= eta + 1
    second = Counter()
    again, _ = driver_of("", eta, second)
    POLICY.version = version
    again.start(Round(killed_at), waiting)
    for now in range(killed_at, 8):
        again.run_round(Round(now))
    assert [number for number, _ in first.seen + second.seen] == list(range(8))
    assert all(0 <= staleness <= eta for _, staleness in first.seen + second.seen)
    again.close()


def test_with_staleness_allowed_the_next_round_is_ordered_before_this_one_is_trained_on() -> None:
    for eta, most in ((0, 0), (1, 1), (3, 3)):
        trainer = Counter()
        driver, _ = driver_of("w" * 99, eta, trainer)
        driver.start(Round(0), ())
        for now in range(6):
            driver.run_round(Round(now))
        assert max(staleness for _, staleness in trainer.seen) == most
        driver.close()


def test_questions_of_others_are_answered_by_the_generator_process_once() -> None:
    driver, _ = driver_of("", 0)
    external, trained = text_group([0.0, 1.0], ["a", "b"]), []
    driver.node = replace(
        driver.node, defence=LayeredDefence([RescueLayer()]), watch=trained.append
    )
    driver.node.inbox.compare([external])
    driver.start(Round(0), ())
    for now in range(2):
        driver.run_round(Round(now))
    driver.close()
    assert [[group.question for group in each.external] for each in trained] == [
        [external.question],
        [],
    ]


def test_a_generator_that_cannot_live_is_given_up_with_its_last_words() -> None:
    driver, warnings = driver_of("wn" + "d" * MAX_DEATHS, 0)
    driver.start(Round(0), ())
    driver.run_round(Round(0))
    with pytest.raises(GeneratorFailed, match=r"failed 3 times at round 1 \(killed\)"):
        driver.run_round(Round(1))
    assert len(warnings) == MAX_DEATHS - 1 and "another one continues with round 1" in warnings[0]
    driver.close()


def test_a_users_mistake_in_the_generator_process_is_told_as_one() -> None:
    driver, _ = driver_of("", 0)
    driver._process.take = lambda block: Failed("no such model", by_user=True)
    driver.start(Round(0), ())
    with pytest.raises(UserError, match=r"^no such model$"):
        driver.run_round(Round(0))
    driver.close()


def test_half_a_message_of_a_dying_process_is_nothing_and_nonsense_is_told(tmp_path) -> None:
    frame = GENERATOR.up.encode(GeneratedMessage(node_of(Counter()).generate(Round(3)), idle=0.5))
    code = "import os, sys; os.write(int(sys.argv[-1]), bytes.fromhex(sys.argv[1]))"
    with (tmp_path / "weights").open("wb") as weights:
        order = GeneratorSetup("{}", IDENTITIES[0].peer_id, weights.fileno(), [])
        for sent, expected in (
            (frame + frame[:-1], "round=3"),
            (b"\xff" * 5, "nonsense: frame of 4294967295"),
        ):
            process = GeneratorProcess(
                order, 1, tmp_path / "log", (sys.executable, "-c", code, sent.hex())
            )
            process.start()
            assert expected in repr(process.take(block=True)) and process.take(block=True) is None
            process.stop()
