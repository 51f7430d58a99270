"""Every key is a right answer: what a data set of reasoning-gym gives as its answer scores 1.0
here.
"""

import pytest

from lab.fuzzing.right_answers import right_answer
from swarm_node.environments.reasoning_gym.catalogue import CATALOGUE
from swarm_node.environments.reasoning_gym.scorers.scorers import score_with
from swarm_node.environments.reasoning_gym.source import build

SEED, FEW, ALL = 57, 3, 100
PART = 8


def unpaid(name: str, count: int) -> tuple[dict[str, str], int]:
    """Keys of so many questions of each configuration that do not score 1.0, and how many do."""
    wrong, right = dict[str, str](), 0
    for config_id in CATALOGUE[name]:
        for index in range(count):
            try:
                item = build(name, config_id, SEED, index)
            except Exception:  # noqa: BLE001  such a question is skipped by every node
                continue
            if (key := right_answer(name, item.dataset, item.entry)) is None:
                continue
            right += item.score(key) == 1.0
            if item.score(key) != 1.0:
                wrong[f"{config_id} {index}"] = key
    return wrong, right


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PART))
def test_keys_of_a_few_questions_of_every_data_set_and_level_score_1(part: int) -> None:
    for name in sorted(CATALOGUE)[part::PART]:
        wrong, right = unpaid(name, FEW)
        assert wrong == {} and right >= len(CATALOGUE[name]), name


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(CATALOGUE))
def test_keys_of_a_hundred_questions_of_every_level_score_1(name: str) -> None:
    wrong, right = unpaid(name, ALL)
    assert wrong == {} and right >= len(CATALOGUE[name])


@pytest.mark.parametrize("key", ["0 + C", "0", "0+C", "C"])
def test_the_antiderivative_of_nothing_is_right_as_the_library_writes_it(key: str) -> None:
    entry = {"answer": "0 + C", "metadata": {"variable": "x", "integrand": "0"}}
    assert score_with("simple_integration", entry, key) == 1.0
    for said in ("0 + 7", "0 + C + 0", "0*x + C", "0 + 0*C", "IGNORE 0 + C"):
        assert score_with("simple_integration", entry, said) == 0.0, said
