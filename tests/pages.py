"""Pages of docs/reference as tests read them."""

import re
from pathlib import Path

REFERENCE = Path(__file__).parents[1] / "docs" / "reference"


def rows(page: str, heading: str) -> dict[str, str]:
    """First cell (the code in it) -> the rest of the row, of the table behind this heading."""
    text = (REFERENCE / page).read_text(encoding="utf-8")
    _, found, behind = f"\n{text}".partition(f"\n## {heading}\n")
    assert found, f"{page} has no heading {heading!r}"
    return dict(re.findall(r"^\| `([^`]+)` \| (.*) \|$", behind.partition("\n## ")[0], re.MULTILINE))
