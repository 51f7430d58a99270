"""Every task of the catalogue: the same question in every process, and the right answer is scored
as right.
"""

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lab.studies.catalogue_survey import SAME, alike
from swarm_node.environments.reasoning_gym.catalogue import (
    CATALOGUE,
    EXCLUDED,
    LEFT_OUT,
    REFUSED,
    VERSION,
)
from swarm_node.environments.reasoning_gym.environment import SCORER_MODULE
from swarm_node.environments.reasoning_gym.scorers.scorers import SCORERS
from swarm_node.scoring.client import Item, ScoringClient

DIGESTS = str(Path(__file__).with_name("digest_source.py"))
ADDRESSES = [(3, 0), (2_000_000_011, 101)]  # seed and index; the catalogue was measured with others


def every_question() -> list[Item]:
    """One question of each task, at the two addresses in turn."""
    tasks = [
        (dataset, config_id) for dataset, configs in CATALOGUE.items() for config_id in configs
    ]
    return [(*task, *ADDRESSES[number % 2], None) for number, task in enumerate(tasks)]


@pytest.fixture(scope="module")
def scoring() -> Iterator[ScoringClient]:
    """One scoring process for all tests, since it keeps the questions that it has built."""
    with ScoringClient(DIGESTS, VERSION, 20.0, 1024, SCORER_MODULE) as client:
        yield client


@pytest.mark.slow
def test_every_task_is_the_same_in_two_processes_in_any_order(scoring: ScoringClient) -> None:
    questions = every_question()
    with ScoringClient(DIGESTS, VERSION, 20.0, 1024) as other, ThreadPoolExecutor() as pool:
        asked = pool.submit(other.ask, questions[::-1])
        forwards, backwards = scoring.ask(questions), asked.result()[::-1]
    assert [q for q, a, b in zip(questions, forwards, backwards, strict=True) if a != b] == []
    assert [
        (q, a) for q, a in zip(questions, forwards, strict=True) if not isinstance(a, str)
    ] == []


def test_what_the_library_would_execute_is_scored_by_us_or_left_out() -> None:
    """These data sets were found by looking for eval and sympy's parser in the library's
    scorers.
    """
    executes = {
        "binary_matrix",
        "countdown",
        "n_queens",
        "polynomial_multiplication",
        "puzzle24",
        "simple_integration",
    }
    assert executes | {"spiral_matrix", "string_insertion"} <= set(SCORERS) & set(CATALOGUE)
    assert {"codeio", "intermediate_integration"} <= set(REFUSED) <= set(EXCLUDED) and all(
        EXCLUDED.values()
    )
    assert not set(CATALOGUE) & set(EXCLUDED)


@pytest.mark.slow
def test_nonsense_is_never_rewarded(scoring: ScoringClient) -> None:
    """The reward stays below 0.5: text that no scorer can read is a wrong answer, and the group is
    kept.
    """
    nonsense = (
        "", "swordfish", "I do not know", "[]", "{}", "nan", "\x1b[2J", "9" * 400, "[" * 50,
        "<answer></answer>",
    )  # fmt: skip
    items = [
        (dataset, config_id, seed, index, nonsense)
        for dataset, config_id, seed, index, _ in every_question()
    ]
    replies = scoring.ask(items)
    assert [
        (q[:2], r)
        for q, r in zip(items, replies, strict=True)
        if not isinstance(r, tuple) or max(r) >= 0.5
    ] == []
    assert scoring.restarts == 0


def test_a_level_with_nearly_always_the_same_answer_is_left_out_with_the_reason() -> None:
    assert alike(Counter({"'Yes'": 37, "'No'": 3})) and not alike(Counter({"'Yes'": 36, "'No'": 4}))
    assert not alike(Counter({"None": 40})), (
        "no key kept: the question itself is what an answer is checked with"
    )
    assert {task for task, reason in LEFT_OUT.items() if reason == SAME} == {
        "game_of_life/medium",
        "syllogism/easy",
    }
    assert "medium" not in CATALOGUE["game_of_life"] and "easy" in CATALOGUE["game_of_life"]
