"""Each claim of the tables in SECURITY.md leads to a test that is there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Sections, least rows
TABLES = {"What stops what": 20, "Which process may do what": 7, "What a page trusts": 6}


@pytest.mark.parametrize("section", TABLES)
def test_each_row_is_linked_to_the_test_that_shows_it(section: str) -> None:
    table = (ROOT / "SECURITY.md").read_text().partition(f"## {section}")[2].partition("\n## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ")][1:]
    assert len(rows) > TABLES[section]
    for row in rows:
        linked = re.findall(r"\]\((tests/[^)]+)\)", row)
        assert linked, row
        for path in linked:
            assert (ROOT / path).exists(), path
