"""Pages that hold tables: a table fits two screens."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
MOST_ROWS = 50  # of a table: two screens


@pytest.mark.parametrize("page", sorted((DOCS / "results").glob("*.md")), ids=lambda page: page.stem)
def test_a_table_of_results_fits_two_screens(page: Path) -> None:
    tables = re.findall(r"(?:^\|.*\n)+", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert all(table.count("\n") <= MOST_ROWS for table in tables)
