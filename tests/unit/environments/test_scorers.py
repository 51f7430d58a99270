"""Our own scorers against the library's: the same rewards, and no execution."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
import reasoning_gym
from hypothesis import given, settings
from hypothesis import strategies as st

from swarm_node.environments.reasoning_gym.catalogue import CATALOGUE
from swarm_node.environments.reasoning_gym.environment import PARTIAL
from swarm_node.environments.rewards import RewardRule
from swarm_node.environments.scoring import scorers

DATASET = reasoning_gym.create_dataset("binary_matrix", seed=5, size=40, min_n=1, max_n=6)


def near_answers(key: str) -> list[str]:
    """Right, wrong and almost right, as text and as literals."""
    rows = [[int(cell) for cell in row.split()] for row in key.splitlines()]
    joined = ["".join(map(str, row)) for row in rows]
    forms = [key, str(rows), str(tuple(map(tuple, rows))), str(joined), str(rows).replace(" ", ""), f"  {rows}"]
    forms += [str([dict.fromkeys(row) for row in rows]), str([set(row) for row in rows]), str([rows]), f"({rows})"]
    forms += [
        str(rows[:-1]),
        str([*rows, [0]]),
        str([[cell + 1 for cell in row] for row in rows]),
        f"[{rows}",
        key[:-1],
    ]
    forms += [str([[float(cell) for cell in row] for row in rows]), str([[bool(cell) for cell in row] for row in rows])]
    return [
        *forms,
        key + "\n",
        f"{rows} # so",
        "",
        "0",
        "[]",
        "None",
        "[[]]",
        "{}",
        "'0'",
        "nan",
        "[1, 2]",
        "I do not know",
    ]


def test_binary_matrix_pays_what_the_library_pays() -> None:
    seen = set()
    for index in range(40):
        entry = DATASET[index]
        for answer in near_answers(entry["answer"]):
            paid = scorers.binary_matrix(answer, entry)
            assert paid == DATASET.score_answer(answer, entry), answer
            seen.add(paid)
    assert seen == {0.0, 0.1, 1.0}


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="[](),01 2-'\"{}:\n", max_size=40), st.integers(0, 39))
def test_binary_matrix_pays_what_the_library_pays_on_any_text_without_names(answer: str, index: int) -> None:
    entry = DATASET[index]  # no letters: nothing the library could call
    assert scorers.binary_matrix(answer, entry) == DATASET.score_answer(answer, entry)


def test_binary_matrix_runs_nothing(tmp_path: Path) -> None:
    entry, mark = DATASET[3], tmp_path / "mark"
    key = entry["answer"]
    for answer in (
        f"[open({str(mark)!r}, 'w'), [0]][1:]",
        f"[[x for x in [__import__('pathlib').Path({str(mark)!r}).touch()]]]",
        f"(lambda: {[row.split() for row in key.splitlines()]})()",
        "[" * 5000,
        "-" * 5000 + "1",
        "[[" + "9" * 5000 + "]]",
        "9**9**9",
        "[[0]*10**9]",
        "\x00",
        "\ud800",
    ):
        assert scorers.binary_matrix(answer, entry) == 0.0
    assert not mark.exists()


def test_a_short_bomb_is_no_answer_either() -> None:
    entry = {"answer": " ".join(["0"] * 400)}
    rng = random.Random(1)
    for length in (100, 1000, 3000):
        for opening in "[(-~{":
            assert scorers.binary_matrix(opening * length + str(rng.random()), entry) == 0.0


STRICTER = (  # pay less than the library for what is not the key: see each for why
    "coin_flip",
    "countdown",
    "game_of_life_halting",
    "n_queens",
    "number_sorting",
    "polynomial_multiplication",
    "puzzle24",
    "simple_integration",
)


def variants(key: str) -> list[str]:
    """The key, almost the key, and what is no answer."""
    changed = [f"{key}.", f"{key}0", f"+{key}", f"0{key}", f"{key}.0", key[:-1], key * 2, key.lower(), key.upper()]
    return [key, *(text.strip() for text in changed), "1", "0", "xyz", "1/2", "True", "[1]"]


def portable(name: str, entry: dict[str, Any]) -> dict[str, Any]:
    """As it arrives in the fork server."""
    metadata = {key: entry["metadata"][key] for key in scorers.NEEDED.get(name, ())}
    return json.loads(json.dumps({"answer": entry["answer"], "metadata": metadata}))


@pytest.mark.slow
@pytest.mark.parametrize("name", scorers.SCORERS)
def test_right_answers_are_those_of_the_library(name: str) -> None:
    seen = 0
    for config_id, config in CATALOGUE[name].items():
        dataset = reasoning_gym.create_dataset(name, seed=11, size=4, **config)
        for index in range(2 if config_id == "hard" else 4):
            entry = dataset[index]
            key = str(entry["answer"])
            if not key:
                continue  # base_conversion writes 0 as nothing, and such a question is not asked
            ours = portable(name, entry)
            assert scorers.score(scorers.SCORERS[name], key.strip(), ours) == 1.0
            seen += 1
            for text in variants(key) if name not in STRICTER else []:
                theirs = scorers.score(dataset.score_answer, text, entry)
                paid = scorers.score(scorers.SCORERS[name], text, ours)
                assert (paid == 1.0) == (theirs == 1.0), (text, key)
    assert seen >= 4


def test_part_of_an_answer_is_never_worth_half() -> None:
    long, entry = "1" * 99 + "2", {"answer": "1" * 99}
    paid = RewardRule("graded", PARTIAL).reward
    assert 0.4 < paid(scorers.score(scorers.same_text, long, entry)) < 0.5
    assert paid(scorers.score(scorers.prime_factors, "12", {"answer": "2 × 2 × 3"})) == 0.25
    assert paid(scorers.score(lambda answer, entry: 0.98, "", entry)) == 0.49
    assert paid(scorers.score(lambda answer, entry: 1.0, "", entry)) == 1.0


def test_a_reward_is_made_in_one_place_and_rounding_is_no_signal() -> None:
    exact, graded = RewardRule("exact", PARTIAL), RewardRule("graded")
    assert exact.rewards([0.98, 0.99, 1.0 - 1e-12, 1.0]) == (0.0, 0.0, 1.0, 1.0)
    assert graded.rewards([0.1 + 0.2, 0.3, 1 / 3]) == (0.3, 0.3, 0.333333)
