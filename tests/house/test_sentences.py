"""Each sentence of SECURITY.md and of docs/explanation/processes.md that says what the code does
leads to a test that shows it, or to a reason why none does (sentences.toml).
"""

import ast
import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TABLE: Mapping[str, Mapping[str, str | list[str]]] = tomllib.loads(
    Path(__file__).with_name("sentences.toml").read_text(encoding="utf-8")
)
# The sections that say what the code does; None for a whole page
SECTIONS: Mapping[str, tuple[str, ...] | None] = {
    "SECURITY.md": (
        "What stops what",
        "Which process may do what",
        "The scoring sandbox",
        "What a paid completion may say",
        "What a page trusts",
    ),
    "docs/explanation/processes.md": None,
}
NOT_SHOWN = "not shown: "
END = re.compile(r"(?<=[a-z0-9)`\]])[.:](?:\*\*)? (?=[A-Z`\[*])")


def sentences(text: str) -> Iterator[str]:
    """The sentences of a page, each on one line: of paragraphs and lists, not of tables."""
    for block in re.split(r"\n\s*\n", text):
        lines = [line for line in block.splitlines() if not line.startswith(("|", "#", "    "))]
        for item in re.split(r"\n(?=- )", "\n".join(lines)):
            whole = " ".join(item.removeprefix("- ").split())
            yield from filter(None, END.split(whole))


def said(page: str) -> list[str]:
    """The sentences of this page that need a test."""
    text = (ROOT / page).read_text(encoding="utf-8")
    wanted = SECTIONS[page]
    if wanted is None:
        return [*sentences(text)]
    sections = dict(part.split("\n", 1) for part in text.split("\n## ")[1:])
    return [sentence for name in wanted for sentence in sentences(sections[name])]


@cache
def names_in(file: Path) -> frozenset[str]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, kinds))


@pytest.mark.parametrize("page", SECTIONS)
def test_each_sentence_leads_to_a_test_or_to_a_reason(page: str) -> None:
    found = {
        sentence: [begin for begin in TABLE[page] if sentence.startswith(begin)]
        for sentence in said(page)
    }
    assert len(found) > 30
    assert [sentence for sentence, begins in found.items() if len(begins) != 1] == []


@pytest.mark.parametrize("page", SECTIONS)
def test_each_row_is_of_a_sentence_and_its_tests_are_there(page: str) -> None:
    every = said(page)
    for begin, value in TABLE[page].items():
        assert [one.startswith(begin) for one in every].count(True) == 1, begin
        for name in [value] if isinstance(value, str) else value:
            if name.startswith(NOT_SHOWN):
                assert len(name) > len(NOT_SHOWN) + 5, begin
                continue
            file, _, test = name.partition("::")
            assert test.startswith("test_") and test in names_in(ROOT / "tests" / file), name


def test_most_sentences_are_shown() -> None:
    values = [value for rows in TABLE.values() for value in rows.values()]
    reasons = [value for value in values if str(value).startswith(NOT_SHOWN)]
    assert len(reasons) * 4 < len(values), "a reason is for limits, and for what no test can try"


def test_a_new_sentence_without_a_row_would_be_found() -> None:
    text = "# A\n\nOne holds. It does\nwhat it `says`. Two follow:\n\n- first\n- Second. Third\n"
    assert [*sentences(text)] == [
        "One holds", "It does what it `says`", "Two follow:", "first", "Second", "Third"
    ]  # fmt: skip
