"""Statistics of studies against numbers worked out by hand."""

import pytest

pytest.importorskip("scipy", reason="extra studies")

from lab.studies.statistics import compare, exact_p, family, holm, interval


@pytest.mark.parametrize(
    ("values", "base", "p"),
    [
        # Of 8 exchanges of signs, +++ and --- give a sum as large
        ([2.0, 4.0, 6.0], [1.0, 2.0, 3.0], 2 / 8),
        # |sum| 4 is reached by 3-1+2, 3+1+2 and their mirrors
        ([3.0, 0.0, 2.0], [0.0, 1.0, 0.0], 4 / 8),
        ([1.0, 2.0], [1.0, 2.0], 1.0),
        ([1.0 + k for k in range(8)], [0.0] * 8, 2 / 256),
    ],
)
def test_the_exact_p_counts_every_exchange_that_is_as_large(values, base, p):
    assert exact_p(values, base) == p


def test_many_seeds_take_a_sample_of_exchanges():
    assert exact_p([1.0 + 0.1 * k for k in range(24)], [0.0] * 24) < 0.001


def test_holm_by_hand():
    # sorted: 0.01 * 4, 0.02 * 3, 0.03 * 2, 0.5 * 1; none below the one before
    assert holm([0.03, 0.01, 0.5, 0.02]) == pytest.approx([0.06, 0.04, 0.5, 0.06])
    assert holm([0.4, 0.9]) == pytest.approx([0.8, 0.9]) and holm([0.9, 0.6]) == [1.0, 1.0]


def test_the_interval_of_the_mean_holds_it_and_is_inside_the_values():
    low, high = interval([1.0, 2.0, 3.0, 4.0, 5.0])
    assert 1.0 < low < 3.0 < high < 5.0
    # 95 % of resamples of a mean whose standard error is sqrt(2 / 5): near 3 -+ 1.96 * 0.632
    assert (low, high) == pytest.approx((1.76, 4.24), abs=0.2)


def test_two_seeds_show_no_spread_and_equal_ones_none():
    assert interval([1.0, 2.0]) is None and interval([2.0, 2.0, 2.0]) == (2.0, 2.0)


def test_a_comparison_is_made_in_pairs():
    found = compare("4/4", [2.0, 4.0, 6.0, 8.0], [1.0, 2.0, 3.0, 4.0])
    assert (found.mean, found.base, found.difference, found.ratio) == (5.0, 2.5, 2.5, 2.0)
    # The ratio of every seed is 2, and so of every resample
    assert found.ratio_interval == pytest.approx((2.0, 2.0))
    assert found.p == found.p_holm == 2 / 16


def test_a_base_of_nothing_gives_no_ratio_and_pairs_are_needed():
    assert compare("4/4", [1.0, 2.0, 3.0], [0.0, 0.0, 0.0]).ratio is None
    with pytest.raises(ValueError, match="pairs are needed"):
        compare("4/4", [1.0], [1.0, 2.0])


def test_a_family_is_corrected_for_its_number_and_the_best_comes_first():
    base = [0.0] * 4
    found = family(
        {"a": [1.0, 1.0, 1.0, 1.0], "b": [2.0, 2.0, 2.0, 2.0], "c": [-1.0, 1.0, -1.0, 1.0]}, base
    )
    assert [each.name for each in found] == ["b", "a", "c"]
    assert [each.p_holm for each in found] == pytest.approx([3 * 2 / 16, 3 * 2 / 16, 1.0])
