"""Each question of the four strangers has its answer within two clicks of README.

lab/readers/strangers.md has the questions, the clicks and words of the answers. Whether a reader
finds them, only readers can say.
"""

import re
from pathlib import Path

from tests.house.test_pages import links

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "lab" / "readers" / "strangers.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| (\d+) \| ([^|]+) \| (.+) \|$", re.MULTILINE)
QUESTIONS = 20
CLICKS = 2


def leads(page: Path) -> set[Path]:
    """The files that this page links to."""
    return {(page.parent / link.partition("#")[0]).resolve() for link in links(page)}


def test_each_question_has_words_of_its_answer_within_two_clicks_of_readme() -> None:
    rows = ROW.findall(PAGE)
    assert [int(number) for number, _, _ in rows] == [*range(1, QUESTIONS + 1)]
    for number, clicks, words in rows:
        first, *pages = (ROOT / name for name in clicks.split(", "))
        assert first.name == "README.md" and len(pages) <= CLICKS, number
        for page, following in zip([first, *pages], pages, strict=False):
            assert following in leads(page), (number, following.name)
        text = " ".join([first, *pages][-1].read_text(encoding="utf-8").split())
        assert words.replace("\\|", "|") in text, (number, words)


def test_every_question_is_a_line_of_the_page() -> None:
    asked = re.findall(r"^(\d+)\. .+\?", PAGE, re.MULTILINE)
    assert [*map(int, asked)] == [*range(1, QUESTIONS + 1)]
