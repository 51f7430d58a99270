"""The pages of docs/reference say what the code says."""

import re
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

from swarm_node.settings.sources import describe, from_command_line

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"


@pytest.fixture(scope="module")
def make() -> ModuleType:
    spec = spec_from_file_location("make_reference", REFERENCE / "make.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_pages_made_from_the_code_are_up_to_date(make: ModuleType) -> None:
    for path, text in make.pages().items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name} is stale: make reference"


def test_every_option_event_and_field_is_explained(make: ModuleType) -> None:
    for kind in make.COMMANDS.values():
        assert [name for name, text in describe(kind).items() if not text] == []
    for path, text in make.pages().items():
        assert [line for line in text.splitlines() if re.search(r"\| +\|", line)] == [], path.name
        assert not re.search(r"^\w+\(.*\)$", text, re.MULTILINE), f"{path.name}: a dataclass without a docstring"


def test_the_flags_on_the_page_are_those_of_the_command_line(
    make: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    for command, kind in make.COMMANDS.items():
        rows = [row for row in (REFERENCE / "options.md").read_text().splitlines() if row.startswith("| `")]
        taken = [row for row in rows if command in row.rsplit(" | ", 1)[1].removesuffix(" |").split(", ")]
        written = {found.group(1) for row in taken if (found := re.search(r"\| `(--[\w.-]+)` \|", row))}
        with pytest.raises(SystemExit):
            from_command_line(kind, ["--help"], command)
        known = set(re.findall(r"^[^\w\n]*?(--\w[\w.-]+)", capsys.readouterr().out, re.MULTILINE))
        assert written == {name for name in known if not re.search(r"(--|\.)no-", name)} - {"--help"}, command


def test_the_reference_loads_no_torch(make: ModuleType) -> None:
    del make
    program = f"import runpy, sys; runpy.run_path({str(REFERENCE / 'make.py')!r}); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=False).returncode == 0
