"""docs/explanation/where.md answers ten questions by file and line: each line holds what the page
quotes of it.

`python -m tests.house.test_where` writes the present line numbers into the page.
"""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "explanation" / "where.md"
QUOTED = re.compile(r"^- `([\w./]+):(\d+)`: `([^`]+)`", re.MULTILINE)
QUESTIONS = 10


def places(file: str, text: str) -> list[int]:
    """The numbers of the lines of `file` that hold `text`."""
    lines = (ROOT / file).read_text(encoding="utf-8").splitlines()
    return [number for number, line in enumerate(lines, start=1) if text in line]


def sections(page: str) -> dict[str, str]:
    """The text below each question."""
    return dict(part.split("\n", 1) for part in page.split("\n## ")[1:])


def corrected(page: str) -> str:
    """The page with the line where each quoted text now stands: the nearest one, where there are
    several.
    """

    def nearest(match: re.Match[str]) -> str:
        file, number, text = match.groups()
        line = min(places(file, text), key=lambda place: abs(place - int(number)))
        return f"- `{file}:{line}`: `{text}`"

    return QUOTED.sub(nearest, page)


def test_each_of_ten_questions_is_answered_by_lines_of_files() -> None:
    found = sections(PAGE.read_text(encoding="utf-8"))
    assert len(found) == QUESTIONS
    assert all(
        question.endswith("?") and QUOTED.search(answer) for question, answer in found.items()
    )


def test_every_line_holds_what_the_page_quotes() -> None:
    wrong = []
    for file, number, text in QUOTED.findall(PAGE.read_text(encoding="utf-8")):
        now = places(file, text)
        if int(number) not in now:
            wrong.append(f"{file}:{number}: {text!r} stands in {now or 'no line'} now")
    assert wrong == [], "python -m tests.house.test_where writes the present numbers"


if __name__ == "__main__":
    PAGE.write_text(corrected(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
