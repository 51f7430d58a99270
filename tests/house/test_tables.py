"""Pages that hold tables: a table fits two screens, and the glossary has every name that still works."""

import re
from pathlib import Path

import pytest

from swarm_node.common import renamed

DOCS = Path(__file__).parents[2] / "docs"
MOST_ROWS = 50  # of a table: two screens


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
