"""A slow question is its author's fault only if the author sought it out. The source moves the
clock.
"""

from collections.abc import Iterable, Mapping
from random import Random

import pytest

from protocol.messages import PeerId
from swarm_node.network.exchange.peers import QUARANTINE, Reputation, points
from swarm_node.scoring import contract
from swarm_node.scoring.building import Builder

BUDGET = contract.QUESTION_BUDGET
CHOSEN = 7  # the seed of the author's questions


class Question:
    prompt = "?"

    def score(self, text: str) -> float:
        return 0.0


class Source:
    """Questions that take as long as a test says. `built` are their addresses."""

    name, version = "timed", "1"
    tasks: Mapping[str, Iterable[str]] = {"a": ("b",), "c": ("d",)}

    def __init__(self, chosen: float, others: float) -> None:
        """The CPU time of the author's questions and of others, in budgets."""
        self.now, self.chosen, self.others = 0.0, chosen, others
        self.built: list[tuple[str, str, int, int]] = []

    def clock(self) -> float:
        return self.now

    def build(self, dataset: str, config_id: str, seed: int, index: int) -> Question:
        self.built.append((dataset, config_id, seed, index))
        self.now += BUDGET * (self.chosen if seed == CHOSEN else self.others)
        return Question()


def builder(source: Source) -> Builder:
    return Builder(source, source.clock, Random(0))


@pytest.mark.parametrize(
    ("chosen", "others", "reason"),
    [
        (0.5, 0.1, None), (1.0, 0.1, None), (1.1, 0.1, contract.SLOW_QUESTION),
        (2.0, 0.1, contract.SLOW_QUESTION), (2.1, 0.1, contract.SOUGHT_OUT),
        (9.0, 0.9, contract.SOUGHT_OUT), (9.0, 1.1, contract.SLOW_QUESTION),
        (2.1, 3.0, contract.SLOW_QUESTION),
    ],
)  # fmt: skip
def test_an_author_is_to_blame_for_twice_the_budget_where_others_are_in_time(
    chosen: float, others: float, reason: str | None
) -> None:
    built = builder(Source(chosen, others)).build(("a", "b", CHOSEN, 0))
    assert built == reason if reason else isinstance(built, Question)


def test_no_points_for_what_is_slow_here_and_some_for_what_was_sought_out() -> None:
    assert points(contract.SLOW_QUESTION) == 0.0 < points(contract.SOUGHT_OUT)
    reputation = Reputation()
    for second in range(100):
        reputation.charge(
            PeerId("honest"), points(contract.SLOW_QUESTION), float(second), contract.SLOW_QUESTION
        )
        reputation.charge(
            PeerId("mallory"), points(contract.SOUGHT_OUT), float(second), contract.SOUGHT_OUT
        )
    assert (
        reputation.state(PeerId("honest"), 100.0) == "ok"
        and reputation.of(PeerId("honest")).faults == {}
    )
    assert reputation.state(PeerId("mallory"), 100.0) == "banned"
    assert points(contract.SOUGHT_OUT) < QUARANTINE, (
        "one alone, which chance may bring, keeps nobody out"
    )


def test_a_task_that_was_slow_here_once_is_no_author_s_fault_any_more() -> None:
    source = Source(9.0, 3.0)
    asked = builder(source)
    assert asked.build(("a", "b", CHOSEN, 0)) == contract.SLOW_QUESTION
    source.others, source.built = 0.1, []
    assert asked.build(("a", "b", CHOSEN, 1)) == contract.SLOW_QUESTION
    assert source.built == [("a", "b", CHOSEN, 1)], "and it costs no comparison"
    assert asked.build(("c", "d", CHOSEN, 1)) == contract.SOUGHT_OUT


def test_a_slow_question_costs_a_bounded_time_and_is_compared_with_one_that_nobody_chose() -> None:
    source = Source(2.1, 0.2)
    asked = builder(source)
    for index in range(50):
        assert asked.build(("a", "b", CHOSEN, index)) == contract.SOUGHT_OUT
    compared = [address for address in source.built if address[2] != CHOSEN]
    assert len(compared) == len({address[2] for address in compared}) == 50
    assert source.now <= 50 * BUDGET * (2.1 + 1)


def test_the_clock_ends_what_never_ends_and_a_question_that_raises_is_broken() -> None:
    class Endless(Source):
        def build(self, dataset: str, config_id: str, seed: int, index: int) -> Question:
            while dataset == "a" and seed == CHOSEN:
                pass
            raise ValueError

    endless = Builder(Endless(0.0, 0.0), rng=Random(0))
    assert endless.build(("a", "b", CHOSEN, 0)) == contract.SOUGHT_OUT
    assert endless.build(("c", "d", CHOSEN, 0)) == contract.BROKEN_QUESTION
