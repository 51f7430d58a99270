"""CSV and JSON files as spreadsheets, scripts and people write them: what is read, and what is left
out by its line.
"""

from pathlib import Path
from typing import Any

import pytest

from swarm_node.common.errors import UserError
from swarm_node.environments.dataset import bounds, reading, table

WANTED = {"question", "answer"}


def rows_of(folder: Path, name: str, content: str | bytes) -> list[tuple[int, Any]]:
    """The rows as pairs: the line, and question and answer or why the row is left out."""
    file = folder / name
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return [
        (line, row if isinstance(row, str) else (row.get("question"), row.get("answer")))
        for line, row in reading.rows(str(file), WANTED)
    ]


READ: list[tuple[str, str, str | bytes, list[tuple[int, Any]]]] = [
    ("a comma in a text without quotes", "a.csv",
     "question,answer\nIs the shop open?,yes, but only on Sunday\nb,c\n",
     [(2, bounds.TOO_WIDE), (3, ("b", "c"))]),
    ("a row that is too short", "a.csv", "question,answer\nb\nc,d\n",
     [(2, bounds.TOO_SHORT), (3, ("c", "d"))]),
    ("spaces in the header", "a.csv", " question , answer \nb,c\n", [(2, ("b", "c"))]),
    ("spaces before quotes", "a.csv", 'question, answer\n"b", "c, d"\n', [(2, ("b", "c, d"))]),
    ("a quotation mark amid a cell in quotes", "a.csv",
     'question,answer\n"b "x" c",d\ne,f\n', [(2, table.BAD_QUOTES), (3, ("e", "f"))]),
    ("a quotation mark amid a plain cell", "a.csv", 'question,answer\nb "x" c,d\n',
     [(2, ('b "x" c', "d"))]),
    ("a quotation mark that is never closed", "a.csv",
     'question,answer\nb,c\n"open,d\ne,f\n',
     [(2, ("b", "c")), (3, table.BAD_QUOTES), (4, table.BAD_QUOTES)]),
    ("empty cells and rows of a spreadsheet", "a.csv", "question,answer,,\nb,c,,\n,,,\n",
     [(2, ("b", "c"))]),
    ("a separator that the first line names", "a.csv", "sep=;\nquestion;answer\nb;c\n",
     [(3, ("b", "c"))]),
    ("UTF-8 with its mark", "a.csv", "\ufeffquestion,answer\né,ü\n", [(2, ("é", "ü"))]),
    ("UTF-16 with its mark", "a.csv", "question;answer\né;ü\n".encode("utf-16"),
     [(2, ("é", "ü"))]),
    ("UTF-16 of a Unicode text export", "a.tsv", "question\tanswer\r\né\tü\r\n".encode("utf-16"),
     [(2, ("é", "ü"))]),
    ("one array of objects", "a.jsonl",
     '[\n  {"question": "a",\n "answer": 1},\n\n {"question": "b", "answer": 2}\n]\n',
     [(2, ("a", 1)), (5, ("b", 2))]),
    ("an array in one line", "a.json", '[{"question": "a"},{"question": "b"}]',
     [(1, ("a", None)), (1, ("b", None))]),
    ("an array with something else in it", "a.json", '[{"question": "a"}, 7]',
     [(1, ("a", None)), (1, bounds.NO_OBJECT)]),
    ("an element above the piece that is read", "a.json",
     '[{"question": "' + "a" * 70_000 + '"},\n{"question": "b"}]',
     [(1, ("a" * 70_000, None)), (2, ("b", None))]),
    ("lines with a mark of UTF-8", "a.jsonl", '\ufeff{"question": "a"}\n{"question": "b"}\n',
     [(1, ("a", None)), (2, ("b", None))]),
]  # fmt: skip


@pytest.mark.parametrize(("what", "name", "content", "rows"), READ)
def test_a_file_is_read_as_people_mean_it_and_rows_that_do_not_fit_are_named(
    tmp_path: Path, what: str, name: str, content: str | bytes, rows: list[tuple[int, Any]]
) -> None:
    assert rows_of(tmp_path, name, content) == rows, what


REFUSED: list[tuple[str, str | bytes, str]] = [
    ("a.csv", "question,answer,answer\nb,c,d\n", "names the column answer 2 times"),
    ("a.csv", 'question,"ans"wer"\nb,c\n', "its header, line 1, has a quotation mark inside"),
    ("a.csv", "question,answer\né,ü\n".encode("latin-1"), "save it as UTF-8 .*CSV UTF-8"),
    ("a.csv", "question,answer\né,ü\n".encode("utf-16-le"), "zero bytes, as UTF-16 without"),
    ("a.jsonl", '{"question": "a"}\n'.encode("utf-16"), "is UTF-16: save it as UTF-8"),
    ("a.json", '[{"question": "a"}, {"question": "b"', "the array in it is broken"),
    ("a.json", '[{"question": "' + "a" * 3_000_000 + '"}]', "an element above 1 MB"),
    ("a.jsonl", '[{"role": "user"}]\n[{"role": "user"}]\n', "there is text after the array"),
]


@pytest.mark.parametrize(("name", "content", "said"), REFUSED)
def test_a_file_that_could_be_misread_is_refused_in_a_line_that_names_it(
    tmp_path: Path, name: str, content: str | bytes, said: str
) -> None:
    with pytest.raises(UserError, match=said) as error:
        rows_of(tmp_path, name, content)
    assert "\n" not in str(error.value) and f"data set {tmp_path / name}" in str(error.value)
