"""Each command in the documentation exists, unless its line names the commit at which it
existed.
"""

import re
import shlex
from importlib.util import find_spec
from pathlib import Path

import pytest

from lab.benchmarks.pages import HOW_TO, TUTORIALS, Typed, steps
from swarm_node.commands.table import find, load
from swarm_node.settings.flags import parse

ROOT = Path(__file__).parents[2]
DOCUMENTS = [*ROOT.glob("*.md"), ROOT / "Makefile", *(ROOT / "docs").rglob("*.md")]
FOLDERS = ("benchmarks", "studies", "fuzzing")
# A command that was deleted when its result had been written down
GONE = re.compile(r"at commit [0-9a-f]{7}")
OURS = f"(?:{'|'.join(FOLDERS)})"


def documented(pattern: str) -> set[str]:
    lines = [
        line
        for document in DOCUMENTS
        for line in document.read_text().splitlines()
        if not GONE.search(line)
    ]
    return set(re.findall(pattern, "\n".join(lines)))


def test_every_command_in_the_documents_is_a_module_that_runs() -> None:
    modules = documented(rf"python -m\s+(lab\.{OURS}\.\w+)")
    assert len(modules) > 15
    missing = {
        name
        for name in modules
        if (spec := find_spec(name)) is None or not runs(Path(str(spec.origin)))
    }
    assert missing == set()


@pytest.mark.parametrize(
    "page",
    sorted([ROOT / "README.md", *TUTORIALS.glob("*.md"), *HOW_TO.glob("*.md")]),
    ids=lambda page: page.stem,
)
def test_every_command_that_a_reader_types_exists_and_has_the_flags_that_it_is_given(
    page: Path,
) -> None:
    """`make test-long` runs them: tests/swarm/test_pages_followed.py."""
    typed = [step.command for step in steps(page.read_text()) if isinstance(step, Typed)]
    for found in filter(None, (re.match(r"(?:\w+=\S+ )*swarm-node\b(.*)", line) for line in typed)):
        words = shlex.split(re.split(r" \|\| | > ", found[1])[0], comments=True)
        if words == ["--version"]:
            continue
        name, entry, rest = find(
            words if words and not words[0].startswith("-") else ["run", *words]
        )
        parse(load(entry).options, rest, name, "FILE")


def runs(file: Path) -> bool:
    return '__name__ == "__main__"' in file.read_text()
