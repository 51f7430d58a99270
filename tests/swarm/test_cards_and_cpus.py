"""A card writes eight completions of 600 tokens to a question, a CPU beside it a few tokens. They
share one swarm, and the CPU trains on what it can afford. Whole nodes, real models and real bytes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from random import Random
from time import process_time

import pytest

from protocol.messages import Round
from swarm_node.generation.generator import BatchGenerator
from swarm_node.network.in_memory import MemorySwarm
from swarm_node.node.round import Node
from swarm_node.policy.batch import completion_lengths
from swarm_node.policy.policy import Policy
from swarm_node.rollouts.cost import TOO_LONG
from swarm_node.rollouts.groups import Generated, RoundReport
from swarm_node.settings import GenerationConfig
from tests.models import IDENTITIES, MANY_EOS, Digits, join, make_node, tiny_policy, trainer_of

ROUNDS = 8
LONG, SHORT = 600, 6  # tokens of a completion at most
SAMPLES = 8
CONTEXT = 768


class FirstDigit(Digits):
    """A completion is right if it begins with a digit: long ones are right as rarely as others."""

    def score(self, completions):
        return [tuple(float(text[:1].isdigit()) for text in texts) for _, texts in completions]


def node(number: int, swarm: MemorySwarm, environment: Digits, hidden: int = 32, **options) -> Node:
    """A node that writes eight short completions to each of six questions, as a CPU does."""
    sizes = {"hidden_size": hidden, "max_position_embeddings": CONTEXT}
    policy = tiny_policy("Qwen2", number, eos=MANY_EOS, **sizes)
    network = join(swarm, number, environment)
    made = make_node(number, network, environment, policy=policy, questions=6, **options)
    return replace(made, generator=writing(policy, SHORT), group_size=SAMPLES)


def writing(policy: Policy, longest: int) -> BatchGenerator:
    config = GenerationConfig(num_generations=SAMPLES, max_completion_length=longest)
    return BatchGenerator(policy, config)


def as_a_card(cpu: Node) -> Node:
    """The node with a model that seldom ends a completion, and room for 600 tokens."""
    policy = tiny_policy("Qwen2", 5, max_position_embeddings=CONTEXT)
    return replace(cpu, generator=writing(policy, LONG))


def counting(reader: Node) -> Node:
    """The node, which counts the tokens of external groups as `run` does."""
    return replace(reader, lengths=partial(completion_lengths, trainer_of(reader).policy))


@cache
def written(longest: int, now: Round) -> Generated:
    """What the writer generates in a round. Its weights stay, so every reader may have the same."""
    writer = node(0, MemorySwarm(Random(0)), FirstDigit())
    writer = as_a_card(writer) if longest == LONG else writer
    return writer.generate(now)


@dataclass
class Beside:
    """What a reader did beside a writer."""

    reports: list[RoundReport]
    seconds: float  # of CPU time in its rounds
    long: int  # groups with completions of a card's length that were published

    @property
    def trained(self) -> int:
        return sum(report.step.trained_tokens for report in self.reports)

    @property
    def used(self) -> int:
        """External groups that it trained on."""
        return sum(report.external_informative for report in self.reports)

    @property
    def too_long(self) -> int:
        return sum(report.skipped.get(TOO_LONG, 0) for report in self.reports)


def reader_beside(writes: Sequence[int], counts: bool, **options) -> Beside:
    """A reader beside a node that writes at most `writes[round % len(writes)]` tokens."""
    swarm, environment = MemorySwarm(Random(0)), FirstDigit()
    writer = node(0, swarm, environment)
    reader = node(1, swarm, environment, local=4, external=2, **options)
    reader = counting(reader) if counts else reader
    found = Beside([], 0.0, 0)
    for now in map(Round, range(ROUNDS)):
        longest = writes[now % len(writes)]
        generated = writer.publish(written(longest, now))
        if longest == LONG:
            found.long += sum(group.informative for group in generated.groups)
        began = process_time()
        found.reports.append(reader.run_round(now))
        found.seconds += process_time() - began
    return found


def test_beside_a_card_a_cpu_trains_on_what_it_can_afford_and_counts_the_rest() -> None:
    alike = reader_beside([SHORT], counts=True)
    assert alike.used > ROUNDS and not alike.too_long
    beside = reader_beside([LONG, SHORT], counts=True)
    assert beside.too_long == beside.long >= ROUNDS
    assert beside.used >= ROUNDS // 2
    assert beside.trained <= 1.1 * alike.trained
    # What the node would do without counting: the same rounds, many times as long
    unbounded = reader_beside([LONG, SHORT], counts=False)
    assert not unbounded.too_long and unbounded.trained > 5 * alike.trained


def test_with_rescue_only_the_completions_that_are_added_have_to_be_afforded() -> None:
    alike = reader_beside([SHORT], counts=True, defence=("rescue",))
    beside = reader_beside([LONG, SHORT], counts=True, defence=("rescue",))
    assert beside.too_long == beside.long >= ROUNDS and beside.used > 0
    assert beside.trained <= 1.1 * alike.trained


def test_a_user_with_more_patience_takes_the_long_ones_too() -> None:
    swarm, environment = MemorySwarm(Random(0)), FirstDigit()
    writer = node(0, swarm, environment)
    reader = counting(node(1, swarm, environment, local=4, external=2))
    patient = reader.config.model_copy(update={"external_tokens": SAMPLES * (LONG + 1)})
    reader = replace(reader, config=patient)
    reports = []
    for now in map(Round, range(4)):
        writer.publish(written(LONG, now))
        reports.append(reader.run_round(now))
    found = Beside(reports, 0.0, 0)
    assert not found.too_long and found.used > 0


@pytest.mark.slow
def test_rounds_beside_a_card_take_no_more_time_than_beside_a_node_of_its_kind() -> None:
    """By CPU time of this process, in turns, so that what else the machine does matters little. The
    reader's model is larger: of a tiny one, reading the messages takes a tenth of a round's time.
    """
    seconds = {"alike": 0.0, "beside": 0.0}
    for _ in range(3):
        seconds["alike"] += reader_beside([SHORT], counts=True, hidden=512).seconds
        seconds["beside"] += reader_beside([LONG], counts=True, hidden=512).seconds
    assert seconds["beside"] <= 1.1 * seconds["alike"]


def test_nobody_is_charged_for_a_group_that_is_too_long() -> None:
    swarm, environment = MemorySwarm(Random(0)), FirstDigit()
    writer = node(0, swarm, environment)
    reader = counting(node(1, swarm, environment, local=4, external=2))
    verdicts: list[tuple[bool, str]] = []
    reader.network.verdict = lambda group, useful, fault="": verdicts.append((useful, fault))
    generated = writer.publish(written(LONG, Round(0)))
    report = reader.run_round(Round(0))
    published = sum(group.informative for group in generated.groups)
    assert report.skipped[TOO_LONG] == published == len(verdicts) > 1
    assert set(verdicts) == {(False, "")}
    assert IDENTITIES[0].peer_id not in {group.author for group in reader.inbox.candidates()}
