"""Rows that can never be answered rightly, rows that contradict others, and verifiers that give no
score: each is said in one line before the first round.
"""

from pathlib import Path
from typing import Any

import pytest

from swarm_node.commands.cli import dispatch
from swarm_node.common.errors import UserError
from swarm_node.environments.dataset.environment import Facts
from tests.core.environments.test_dataset import ROWS, read, write

# 22 assorted answers, as files of mixed questions hold them
ASSORTED: list[Any] = [
    "4", 4, "12 km", "Paris", "New York", "B", "(B)", True, False, "1/2", "3.5 %", "none", "yes",
    "12:30", {"a": 1}, ["x", "y"], '{"a": 1}', "[1, 2]", "5 March 2020", 3, "x = 2", "A. Paris",
]  # fmt: skip
ROWS_OF_ASSORTED = [{"prompt": f"Question {k}?", "answer": it} for k, it in enumerate(ASSORTED)]


def facts_by(folder: Path, verifier: str, rows: Any = ROWS_OF_ASSORTED) -> Facts:
    return read(write(folder, rows).model_copy(update={"verifier": verifier, "held_out": 0.0}))


@pytest.mark.parametrize(
    ("verifier", "never"),
    [
        ("exact", set[Any]()),
        ("number", {"Paris", "New York", "B", "(B)", "none", "yes", "A. Paris", "true", "false"}),
        ("choice", {"4", "12 km", "Paris", "New York", "true", "false", "1/2", "yes"}),
        ("json", {"12 km", "Paris", "B", "(B)", "1/2", "none", "yes", "12:30", "x = 2"}),
    ],
)
def test_an_answer_that_its_own_verifier_refuses_is_left_out_and_named_by_line(
    tmp_path: Path, verifier: str, never: set[Any]
) -> None:
    facts = facts_by(tmp_path, verifier)
    alone = {
        str(answer).lower() if isinstance(answer, bool) else answer
        for answer in ASSORTED
        if isinstance(answer, str | bool) and _is_refused(tmp_path, verifier, answer)
    }
    assert never <= alone
    left = facts.left_out.get("can never be correct", 0)
    assert facts.train + sum(facts.left_out.values()) == len(ASSORTED)
    if never:
        (warned,) = [text for warning, text in facts.notes() if "never" in text and warning]
        assert warned.startswith(
            f"{left} of {left + facts.train} rows can never be correct, since {verifier} "
        )
        assert "are skipped: lines " in warned


def _is_refused(folder: Path, verifier: str, answer: Any) -> bool:
    rows = [
        {"prompt": "a", "answer": answer},
        {"prompt": "b", "answer": "A" if verifier == "choice" else "1"},
    ]
    return "can never be correct" in facts_by(folder, verifier, rows).left_out


def test_a_file_of_which_no_row_can_be_right_is_refused_with_a_line_of_it(tmp_path: Path) -> None:
    rows = [{"prompt": str(k), "answer": "Paris"} for k in range(3)]
    with pytest.raises(
        UserError, match="none of its 3 answers can be correct according to the verifier numb"
    ):
        facts_by(tmp_path, "number", rows)
    with pytest.raises(UserError, match=r"that of line 1 is \(\[; take another verifier"):
        facts_by(tmp_path, "regex", [{"prompt": "x", "answer": "(["}])


def test_mathematics_that_math_verify_does_not_read_is_left_out(tmp_path: Path) -> None:
    pytest.importorskip("math_verify")
    rows = [{"prompt": str(k), "answer": a} for k, a in enumerate(["1/2", "", "x^2", "<think>5"])]
    facts = facts_by(tmp_path, "math", rows)
    assert (facts.train, facts.lines["can never be correct"]) == (2, [4])


def test_rows_that_contradict_one_before_are_said_and_those_that_say_the_same_are_not(
    tmp_path: Path,
) -> None:
    rows = [("a", "4"), ("a", "4.0"), ("b", "4"), ("b", "5"), ("c", "1"), ("c", "1"), ("c", "2")]
    dicts = [{"prompt": prompt, "answer": answer} for prompt, answer in rows]
    facts = facts_by(tmp_path, "number", dicts)
    assert (facts.contradicting, facts.contradicting_lines) == (2, [4, 7])
    assert "2 rows give a question of a row before another answer: lines 4, 7; both are" in (
        " ".join(text for _, text in facts.notes())
    )
    assert facts_by(tmp_path, "exact", dicts).contradicting_lines == [2, 4, 7]


FUNCTIONS = [
    ("", "score", "no attribute 'score'"),
    ("def score(completion, answer:\n", "score", "SyntaxError"),
    ("import not_there_at_all\n", "score", "No module named 'not_there_at_all'"),
    ("async def score(completion, answer):\n    return 1.0\n", "score", "without async"),
    ("def score(*, completion, answer):\n    return 1.0\n", "score", "by position"),
    ("def score(completion):\n    return 1.0\n", "score", "by position"),
    ("def score(completion, answer):\n    completion == answer\n", "score", "something else"),
    ("def score(completion, answer):\n    return 7\n", "score", "something else"),
    ("def score(completion, answer):\n    return answer.no\n", "score", r"\(it raises\)"),
    ("score = 1.0\n", "score", "it is not a function"),
]


@pytest.mark.parametrize(("code", "function", "said"), FUNCTIONS)
def test_a_verifier_that_gives_no_scores_is_refused_before_the_first_round(
    tmp_path: Path, code: str, function: str, said: str
) -> None:
    (tmp_path / "mine.py").write_text(code)
    with pytest.raises(UserError, match=said) as error:
        facts_by(tmp_path, f"{tmp_path}/mine.py:{function}", ROWS)
    assert "\n" not in str(error.value) and "mine.py:score" in str(error.value)


@pytest.mark.slow
def test_the_command_refuses_a_verifier_that_hangs(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def score(completion, answer):\n    while True: pass\n")
    file = write(tmp_path).file
    with pytest.raises(UserError, match=r"score \(it takes more than 10 s\)"):
        dispatch(["task", "try", file, "--verifier", f"{tmp_path}/mine.py:score"])


def test_a_function_may_refuse_reference_answers_and_that_is_said(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "def score(completion, answer):\n    return float(completion == answer != '7')\n"
    )
    facts = facts_by(tmp_path, f"{tmp_path}/mine.py:score", ROWS[:10])
    assert (facts.tried, facts.refused, facts.refused_lines) == (10, 1, [8])
    assert facts.train == 10
    (tmp_path / "mine.py").write_text("def score(completion, answer):\n    return 0.0\n")
    assert facts_by(tmp_path, f"{tmp_path}/mine.py:score", ROWS[:10]).refused == 0
