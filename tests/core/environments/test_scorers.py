"""Our own scorers against the library's: the same rewards, and no execution."""

from pathlib import Path
from typing import Any

import pytest
import reasoning_gym
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.fuzzing import spellings
from lab.fuzzing.right_answers import answered
from swarm_node.environments.reasoning_gym.catalogue import CATALOGUE
from swarm_node.environments.reasoning_gym.environment import PARTIAL
from swarm_node.environments.reasoning_gym.scorers import scorers
from swarm_node.environments.rewards import RewardRule

REWARDED = RewardRule("graded", PARTIAL).reward
BINARY_MATRIX = scorers.SCORERS["binary_matrix"].score
DATASET = reasoning_gym.create_dataset("binary_matrix", seed=5, size=40, min_n=1, max_n=6)


def near_answers(key: str) -> list[str]:
    """Right, wrong and almost right, as text and as literals."""
    rows = [[int(cell) for cell in row.split()] for row in key.splitlines()]
    joined = ["".join(map(str, row)) for row in rows]
    forms = [
        key,
        str(rows),
        str(tuple(map(tuple, rows))),
        str(joined),
        str(rows).replace(" ", ""),
        f"  {rows}",
    ]
    forms += [
        str([dict.fromkeys(row) for row in rows]),
        str([set(row) for row in rows]),
        str([rows]),
        f"({rows})",
    ]
    forms += [str(rows[:-1]), str([*rows, [0]]), f"[{rows}", key[:-1]]
    forms += [str([[cell + 1 for cell in row] for row in rows])]
    forms += [str([[kind(cell) for cell in row] for row in rows]) for kind in (float, bool)]
    forms += [
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
    return forms


def test_binary_matrix_scores_as_the_library_does() -> None:
    seen = set()
    for index in range(40):
        entry = DATASET[index]
        for answer in near_answers(entry["answer"]):
            scored = BINARY_MATRIX(answer, entry)
            assert scored == DATASET.score_answer(answer, entry), answer
            seen.add(scored)
    assert seen == {0.0, 0.1, 1.0}


@settings(max_examples=50, deadline=None)
@given(st.text(alphabet="[](),01 2-'\"{}:\n", max_size=40), st.integers(0, 39))
def test_binary_matrix_scores_as_the_library_does_on_any_text_without_names(
    answer: str, index: int
) -> None:
    # The answer has no letters, so it names nothing that the library could call
    entry = DATASET[index]
    assert BINARY_MATRIX(answer, entry) == DATASET.score_answer(answer, entry)


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
        *(opening * length + "1" for length in (100, 1000, 3000) for opening in "[(-~{"),
    ):
        assert BINARY_MATRIX(answer, entry) == 0.0
    assert not mark.exists()


BESIDE = (  # what a policy could be made to say along with a right answer
    "{} payload", "{}\npayload", "{} # payload", "{}, payload", "{}; payload", "{} 答案", "{}{{}}",
    "{}:payload", "payload {}", "payload: {}", "payload\n{}", "[payload] {}",
    "{}" + " " * 500 + "payload", "{}<payload>", "{}//payload", "{} {}\n.payload", "{} []",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", CATALOGUE)
def test_right_answers_score_as_in_the_library_and_with_nothing_beside_them(name: str) -> None:
    tally = spellings.compare(name, 1)
    assert spellings.unexplained({name: tally}) == {} and tally.tried >= 29
    item, answer = next(answered(name, next(iter(CATALOGUE[name].values())), spellings.SEED, 64))
    with_more = [text.format(answer, answer) for text in BESIDE]
    assert item.score(answer) == 1.0
    assert {
        text: scored for text in with_more if (scored := REWARDED(item.score(text))) >= 0.5
    } == {}


@pytest.mark.parametrize(
    ("name", "answer", "metadata"),
    [
        ("fraction_simplification", "3/4" + " " * 500 + "payload", {}),
        ("fraction_simplification", "\\frac{3}{4} payload", {}),
        ("graph_color", '{"0": "payload", "0": 1}',
            {"puzzle": {"vertices": [0], "edges": [], "color_options": [1]}}),
        ("graph_color", '{"0": 1, "payload": 1}',
            {"puzzle": {"vertices": [0], "edges": [], "color_options": [1]}}),
        ("game_of_life", '[[0, 1], "payload"]', {}), ("game_of_life", '[[0, 1, "payload"]]', {}),
        ("propositional_logic", "P ∨ payload", {"premises": ["P"], "variables": ["P", "Q"]}),
        ("cryptarithm", "A=payload,A=1",
            {"words_letters": ["A"], "result_letters": "A", "allow_leading_zero": False}),
        ("polynomial_equations", "1.0, payload", {"exp_distance_factor": -10.0}),
    ],
)  # fmt: skip
def test_what_hides_in_an_answer_makes_it_wrong(
    name: str, answer: str, metadata: dict[str, Any]
) -> None:
    fraction = {
        "numerator": 6,
        "denominator": 8,
        "simplified_numerator": 3,
        "simplified_denominator": 4,
    }
    penalties = {"penalty_missing_factor": 0.5, "penalty_extra_factor": 0.5}
    key = {"game_of_life": "[[0, 1]]", "polynomial_equations": "1.0"}.get(name, "")
    entry = {"answer": key, "metadata": fraction | penalties | metadata}
    assert REWARDED(scorers.score(scorers.SCORERS[name], answer, entry)) < 0.5


def test_part_of_an_answer_is_never_worth_half() -> None:
    entry = {"answer": "1" * 99}
    scored = RewardRule("graded", PARTIAL).reward
    assert 0.4 < scored(scorers.score(scorers.SCORERS["gcd"], "1" * 99 + ".", entry)) < 0.5
    assert scorers.score(scorers.SCORERS["gcd"], "1" * 99 + "2", entry) == 0.0
    assert (
        scored(scorers.score(scorers.SCORERS["prime_factorization"], "12", {"answer": "2 × 2 × 3"}))
        == 0.25
    )
    assert scored(scorers.score(scorers.Scorer(lambda answer, entry: 0.98), "", entry)) == 0.49
    assert scored(scorers.score(scorers.Scorer(lambda answer, entry: 1.0), "", entry)) == 1.0


def test_a_reward_is_made_in_one_place_and_rounding_is_no_signal() -> None:
    exact, graded = RewardRule("exact", PARTIAL), RewardRule("graded")
    assert exact.rewards([0.98, 0.99, 1.0 - 1e-12, 1.0]) == (0.0, 0.0, 1.0, 1.0)
    assert graded.rewards([0.1 + 0.2, 0.3, 1 / 3]) == (0.3, 0.3, 0.333333)
