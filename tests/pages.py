"""Pages of docs/reference as tests read them."""

import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

REFERENCE = Path(__file__).parents[1] / "docs" / "reference"


def script(file: Path) -> ModuleType:
    """The module of a script beside the pages that it makes."""
    spec = spec_from_file_location(f"makes_{file.stem}", file)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rows(page: str, heading: str) -> dict[str, str]:
    """The table behind this heading: the code in the first cell of a row -> the rest of the row."""
    text = (REFERENCE / page).read_text(encoding="utf-8")
    _, found, behind = f"\n{text}".partition(f"\n## {heading}\n")
    assert found, f"{page} has no heading {heading!r}"
    return dict(
        re.findall(r"^\| `([^`]+)` \| (.*) \|$", behind.partition("\n## ")[0], re.MULTILINE)
    )
