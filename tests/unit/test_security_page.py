"""Each line of the table in SECURITY.md leads to a test that is there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_each_defence_is_linked_to_the_test_that_shows_it() -> None:
    table = (ROOT / "SECURITY.md").read_text().partition("## What stops what")[2].partition("## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 20
    for row in rows:
        linked = re.findall(r"\]\((tests/[^)]+)\)", row)
        assert linked, row
        for path in linked:
            assert (ROOT / path).exists(), path
