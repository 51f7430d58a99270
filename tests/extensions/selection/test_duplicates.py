"""Near-duplicates of a group, and the layer that keeps one of them."""

from random import Random

import pytest

from swarm_node.extensions.selection.duplicates import distinct
from swarm_node.node.learner import build_defence
from swarm_node.settings import DefenceConfig
from tests.models import text_group


@pytest.mark.parametrize(
    ("texts", "rewards", "left"),
    [
        (["12", "12", "5", "12 "], [1.0, 1.0, 0.0, 1.0], [0, 2]),
        (["12", "12"], [1.0, 0.0], [0, 1]),  # told apart by reward
        (["12", "21"], [0.0, 0.0], [0, 1]),  # digits count here: these are two different completions
        (["the answer is clearly 7", "The  answer is clearly 7"], [1.0, 1.0], [0]),
        (["the answer is clearly 7", "so 7"], [1.0, 1.0], [0, 1]),
        (["", ""], [0.0, 0.0], [0]),
    ],
)
def test_of_near_duplicates_the_first_stays(texts, rewards, left) -> None:
    assert distinct(text_group(rewards, texts)) == left


def test_the_layer_keeps_one_of_them() -> None:
    group = text_group([1.0, 1.0, 0.0], ["12", "12", "5"])
    (left,) = build_defence(DefenceConfig(layers=("duplicates",))).screen([], [group], Random(0))[0]
    assert [completion.text for completion in left.group.completions] == ["12", "5"]
