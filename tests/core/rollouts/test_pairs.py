"""Which completions of an external group are trained on where only pairs of them are."""

from dataclasses import replace
from random import Random

import pytest

from swarm_node.rollouts.groups import Group, Tokens
from swarm_node.rollouts.pairs import fewer, in_pairs
from swarm_node.training.objectives import group_advantages
from tests.groups import scored
from tests.models import text_group


def group(*rewards: float) -> Group:
    texts = [f"{'right' if reward else 'wrong'} {index}" for index, reward in enumerate(rewards)]
    return scored(text_group(rewards, texts), "?", rewards)


@pytest.mark.parametrize(
    ("right", "wrong", "most", "kept"),
    [(1, 7, 4, 1), (3, 5, 4, 3), (3, 5, 2, 2), (6, 2, 4, 2), (7, 1, 4, 1), (4, 4, 1, 1)],
)
def test_as_many_right_completions_are_kept_as_wrong_ones(right, wrong, most, kept):
    paired = in_pairs(group(*[1.0] * right, *[0.0] * wrong), most, Random(0))
    assert sorted(paired.rewards) == [0.0] * kept + [1.0] * kept
    assert paired.informative


def test_without_the_option_and_in_a_group_that_teaches_nothing_all_stay_and_nothing_is_drawn():
    rng = Random(0)
    before = rng.getstate()
    for whole, most in ((group(1.0, 0.0, 0.0), 0), (group(0.0, 0.0), 2), (group(1.0, 1.0), 2)):
        assert in_pairs(whole, most, rng) is whole
    assert rng.getstate() == before


def test_completions_stay_in_their_order_and_every_one_has_its_turn():
    whole = group(0.0, 1.0, 0.0, 0.0, 1.0)
    seen = set()
    for seed in range(40):
        paired = in_pairs(whole, 1, Random(seed))
        positions = [whole.samples.index(sample) for sample in paired.samples]
        assert positions == sorted(positions)
        seen.update(positions)
    assert seen == set(range(5))


def test_partial_credit_counts_as_right_where_it_is_above_the_mean_of_the_group():
    paired = in_pairs(group(0.0, 0.1, 0.9, 0.4), 4, Random(0))
    assert paired.rewards == (0.0, 0.1, 0.9, 0.4)  # two above the mean of 0.35, two below
    assert sorted(in_pairs(group(0.0, 0.1, 0.2, 0.9), 4, Random(0)).rewards)[1] == 0.9


def test_one_right_and_one_wrong_completion_have_advantages_of_equal_size():
    paired = in_pairs(group(1.0, *[0.0] * 7), 4, Random(0))
    high, low = sorted(group_advantages(paired.rewards), reverse=True)
    assert high == pytest.approx(-low) and high == pytest.approx(0.5**0.5)


def test_of_a_rescued_group_the_completions_of_the_peer_are_kept_first():
    whole = group(1.0, 1.0, 0.0, 0.0, 1.0, 1.0)
    tokens = Tokens((1,), (0.0,))
    here = tuple(replace(sample, tokens=tokens) for sample in whole.samples[:4])
    rescued = replace(whole, samples=(*here, *whole.samples[4:]))
    for seed in range(10):
        paired = in_pairs(rescued, 2, Random(seed))
        assert [sample.external for sample in paired.samples] == [False, False, True, True]


def test_the_purse_counts_no_more_completions_than_are_trained_on():
    assert [fewer(None, 0), fewer(None, 4), fewer(2, 0), fewer(2, 4), fewer(8, 4)] == [
        None,
        4,
        2,
        2,
        4,
    ]
