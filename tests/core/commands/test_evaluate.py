"""Wilson's interval against published values."""

import pytest

from swarm_node.commands.evaluate import wilson


@pytest.mark.parametrize(
    ("right", "total", "low", "high"),
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_wilson_interval_equals_newcombe_1998_table_1(right, total, low, high):
    assert wilson(right, total) == pytest.approx((low, high), abs=5e-5)


def test_without_a_question_nothing_is_known():
    assert wilson(0, 0) == (0.0, 1.0)
