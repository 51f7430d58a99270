"""Samplers: uniform over informative groups, whichever peer generated them and however well they
scored.
"""

from collections import Counter
from math import sqrt
from random import Random

from swarm_node.rollouts.groups import Group, Skipped
from swarm_node.rollouts.sampler import UniformSampler, choose_local
from tests.groups import external
from tests.models import select, text_group

UNINFORMATIVE, MIXED = (1.0, 1.0), (0.0, 1.0)


def own(signals: list[bool]) -> list[Group]:
    return [
        text_group(MIXED if s else UNINFORMATIVE, ["a", "b"], author="me", index=k)
        for k, s in enumerate(signals)
    ]


class Bench:
    """Candidates with their rewards, and a scorer that counts."""

    def __init__(self, rewards: list[tuple[float, ...] | None]) -> None:
        self.asked: list[int] = []
        self.rewards = rewards
        self.candidates = [
            external(text_group([0.0] * len(r or (0, 0)), ["x"] * len(r or (0, 0)), index=k))
            for k, r in enumerate(rewards)
        ]

    def score(self, groups) -> list[Group | Skipped]:
        self.asked += [group.question.index for group in groups]
        scored = [(group, self.rewards[group.question.index]) for group in groups]
        return [each.scored(rewards) if rewards else Skipped("?") for each, rewards in scored]

    def select(self, count: int, seed: int = 0) -> tuple[list[Group], list[Group]]:
        return select(UniformSampler(), self.candidates, self.score, count, seed)


def index_of(group: Group) -> int:
    return group.question.index


def test_an_uninformative_group_is_never_selected_and_never_asked_for_again() -> None:
    bench = Bench([UNINFORMATIVE, (0.0, 0.0), MIXED, None, (0.1,) * 8])
    for seed in range(20):
        selected, spent = bench.select(4, seed)
        assert [index_of(group) for group in selected] == [2] and sorted(map(index_of, spent)) == [
            0,
            1,
            2,
            3,
            4,
        ]


def test_no_more_are_scored_than_needed() -> None:
    bench = Bench([MIXED] * 30)
    selected, spent = bench.select(4)
    assert len(selected) == len(bench.asked) == len(spent) == 4
    bench = Bench([MIXED, UNINFORMATIVE] * 15)
    selected, spent = bench.select(4)
    assert len(selected) == 4
    assert len(bench.asked) < 20 and sorted(map(index_of, spent)) == sorted(bench.asked)


def test_nothing_wanted_or_nothing_there_scores_nothing() -> None:
    assert (Bench([MIXED]).select(0)[0], Bench([]).select(3)[0]) == ([], [])
    bench = Bench([MIXED])
    bench.select(0)
    assert bench.asked == []


def test_every_informative_group_is_selected_equally_often_whatever_its_scores_and_size() -> None:
    bench = Bench(
        [
            MIXED,
            (0.0, 0.01),
            (1.0,) * 63 + (0.0,),
            UNINFORMATIVE,
            (0.0,) * 63 + (1.0,),
            (1.0,) * 64,
            MIXED,
        ]
    )
    draws, wanted = 6000, 2
    counts = Counter(
        index_of(group) for seed in range(draws) for group in bench.select(wanted, seed)[0]
    )
    assert set(counts) == {0, 1, 2, 4, 6}
    share = wanted / 5
    for count in counts.values():
        assert abs(count / draws - share) < 4 * sqrt(share * (1 - share) / draws)


def test_local_groups_are_selected_uniformly_informative_or_not() -> None:
    groups = own([True, False, False, True])
    counts = Counter(
        index_of(group)
        for seed in range(4000)
        for group in choose_local(groups, 2, 0, False, Random(seed))[0]
    )
    assert all(abs(counts[k] / 4000 - 0.5) < 0.035 for k in range(4))


def test_the_informative_rule_takes_informative_groups_only() -> None:
    assert sorted(
        map(index_of, choose_local(own([True, False, True, False]), 4, 4, True, Random(0))[0])
    ) == [0, 2]
