"""Pages are for somebody, and are read without effort: what can be counted of that."""

import re
from pathlib import Path

import pytest

from swarm_node.common import renamed

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
TUTORIALS = sorted((DOCS / "tutorials").glob("*.md"))
PLAIN = [ROOT / "README.md", *TUTORIALS]
RECORDS = [page for page in (DOCS / "decisions").glob("*.md") if page.name != "README.md"]  # for whom: their README
OTHERS = ["docker/README.md", "protocol/README.md", "examples/plugin/README.md"]
PAGES = sorted({*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *(ROOT / name for name in OTHERS)} - {*RECORDS})
MOST_WORDS = 18  # of a sentence, on average
MOST_ROWS = 50  # of a table: two screens


def sentences(page: str) -> list[str]:
    """Of the running text: no code, tables, headings, pictures or comments. An item of a list ends where it ends."""
    text = re.sub(r"^```.*?^```", "\n", page, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r"^(#|\||    |!\[).*$", "\n", text, flags=re.MULTILINE)
    text = re.sub(r"`[^`]*`", "code", text)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"\b(e\.g|i\.e|arXiv \d+|\d+)\.(?=\S| [a-z])", r"\1", text)
    found = []
    for paragraph in re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )", text):
        joined = re.sub(r"^(?:[-*]|\d+\.) ", "", " ".join(paragraph.split()))
        found += [each for each in re.split(r"(?<=[.!?])[*_\")]* +(?=[^a-z])", joined) if re.search(r"\w", each)]
    return found


def test_sentences_are_counted_as_a_reader_would() -> None:
    page = """# A title that is not counted at all

One two `three four` five. Six [seven](x.md)
eight! Version 2.9 is new, e.g. here.

- An item of a list
- Another: with a colon

| no | table |
|---|---|

```bash
no code.
```
"""
    expected = ["One two code five.", "Six seven eight!", "Version 29 is new, e.g here.", "An item of a list"]
    assert sentences(page) == [*expected, "Another: with a colon"]


@pytest.mark.parametrize("page", PLAIN, ids=lambda page: page.stem)
def test_sentences_are_short(page: Path) -> None:
    found = sentences(page.read_text(encoding="utf-8"))
    assert len(found) > 10
    assert sum(len(each.split()) for each in found) / len(found) < MOST_WORDS


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_first_paragraph_says_for_whom_the_page_is(page: Path) -> None:
    head, first, *_ = page.read_text(encoding="utf-8").split("\n\n")
    assert head.startswith("# ")
    assert first.startswith("For "), first


@pytest.mark.parametrize("page", sorted((DOCS / "results").glob("*.md")), ids=lambda page: page.stem)
def test_a_table_of_results_fits_two_screens(page: Path) -> None:
    tables = re.findall(r"(?:^\|.*\n)+", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert all(table.count("\n") <= MOST_ROWS for table in tables)


def test_the_glossary_has_every_name_that_still_works() -> None:
    page = (DOCS / "reference" / "glossary.md").read_text(encoding="utf-8")
    pairs = {*renamed.OPTIONS.items(), *renamed.REASONS.items(), *((old, new) for new, old in renamed.KEYS.items())}
    pairs |= {(f'{name} = "{old}"', f'{name} = "{new}"') for (name, old), new in renamed.VALUES.items()}
    written = set(re.findall(r"^\| `([^`]+)` \| `([^`]+)` \|", page, re.MULTILINE))
    assert written == pairs
