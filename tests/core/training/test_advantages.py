"""Advantages against numbers worked out by hand."""

from math import sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm_node.environments.rewards import DIGITS
from swarm_node.rollouts.advantages import ADVANTAGES, group_advantages, population_advantages
from swarm_node.rollouts.groups import SAME_REWARD
from swarm_node.settings import training as options
from tests.models import text_group

RULES = ADVANTAGES
REWARDS = st.lists(st.floats(0, 1), min_size=2, max_size=64)


def test_one_right_completion_of_four_gets_what_a_hand_computes() -> None:
    # mean 1/4, squares (9 + 1 + 1 + 1)/16 = 12/16, sample variance 12/16/3 = 1/4, deviation 1/2
    assert group_advantages([1, 0, 0, 0]) == pytest.approx([1.5, -0.5, -0.5, -0.5], abs=1e-7)


def test_without_scaling_an_advantage_is_the_distance_from_the_mean() -> None:
    assert group_advantages([1, 0, 0, 0], scale="none") == [0.75, -0.25, -0.25, -0.25]


@pytest.mark.parametrize("reward", [0.0, 0.1, 0.3, 1 / 3, 0.7, 1.0])
@pytest.mark.parametrize("size", [2, 3, 7, 8, 64])
@pytest.mark.parametrize("scale", ["group", "none"])
def test_equal_rewards_give_exactly_zero(reward, size, scale) -> None:
    assert group_advantages([reward] * size, scale) == [0.0] * size


@given(REWARDS)
def test_advantages_sum_to_nothing_and_keep_the_order_of_rewards(rewards) -> None:
    advantages = group_advantages(rewards)
    assert abs(sum(advantages)) < 1e-4
    ranked = [a for _, a in sorted(zip(rewards, advantages, strict=True))]
    assert ranked == sorted(ranked)


@given(REWARDS)
def test_a_group_is_informative_exactly_when_an_advantage_is_not_zero(rewards) -> None:
    assert text_group(rewards, ["x"] * len(rewards)).informative == any(group_advantages(rewards))


@pytest.mark.parametrize("name", sorted(RULES))
def test_rewards_within_the_tolerance_count_as_equal_and_the_group_is_uninformative(name) -> None:
    # Before, a reward of 16 that was a millionth higher had an advantage of 3.6
    for differing in (1e-6, 0.99 * SAME_REWARD):
        rewards = [0.3 + differing] + [0.3] * 15
        assert RULES[name](rewards) == [0.0] * 16
        assert not text_group(rewards, ["x"] * 16).informative
    rewards = [0.3 + 1.01 * SAME_REWARD] + [0.3] * 15
    assert all(RULES[name](rewards)) and text_group(rewards, ["x"] * 16).informative


def test_close_rewards_keep_their_difference_where_another_is_far() -> None:
    # mean 1/2, deviation of 0, 0.50001, 0.49999, 1 is the root of 1/6, up to the tenth digit
    advantages = group_advantages([0.0, 0.50001, 0.49999, 1.0])
    assert advantages == pytest.approx(
        [-0.5 * sqrt(6), 1e-5 * sqrt(6), -1e-5 * sqrt(6), 0.5 * sqrt(6)], abs=1e-7
    )


def test_the_tolerance_is_wider_than_the_rounding_of_rewards() -> None:
    assert SAME_REWARD >= 10 * 10**-DIGITS


def test_the_population_deviation_divides_by_all_and_adds_a_millionth() -> None:
    # mean 1/4, population variance 3/16
    deviation = sqrt(3 / 16) + 1e-6
    assert population_advantages([1, 0, 0, 0]) == pytest.approx(
        [0.75 / deviation] + [-0.25 / deviation] * 3
    )
    assert population_advantages([0.1] * 8) == [0.0] * 8


def test_the_option_takes_the_names_of_the_table_in_which_the_rules_stand() -> None:
    assert tuple(ADVANTAGES) == options.ADVANTAGES
