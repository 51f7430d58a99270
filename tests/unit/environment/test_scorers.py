"""Our own scorers against the library's: the same rewards, and no execution."""

import random
from pathlib import Path

import reasoning_gym
from hypothesis import given, settings
from hypothesis import strategies as st

from swarm_node.environment import scorers

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
