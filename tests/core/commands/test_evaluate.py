"""Wilson's interval against published values."""

import pytest

from protocol.messages import PeerId
from swarm_node.commands.evaluate import nothing_right, wilson
from swarm_node.environments.reasoning_gym.catalogue import VERSION
from swarm_node.settings import LearningConfig
from tests.groups import question


@pytest.mark.parametrize(
    ("right", "total", "low", "high"),
    [
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
        (0, 0, 0.0, 1.0),
    ],
)
def test_wilson_interval_equals_newcombe_1998_table_1(right, total, low, high):
    assert wilson(right, total) == pytest.approx((low, high), abs=5e-5)


def test_where_nothing_was_right_one_answer_stands_beside_what_was_wanted():
    asked = question(PeerId("me"), version=VERSION, config_id="tiny", seed=7)
    line = nothing_right(asked, "The sum\x1b[2J is 7.", LearningConfig())
    assert (
        "chain_sum/tiny" in line and "The sum" in line and "\x1b" not in line and "\n" not in line
    )
    assert "is expected" in line and "--shots" in line
