"""The seeded bugs are where they say, and the command finds out which of them tests catch."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from lab.seeded_bugs.hunt import Bug, hunt, load, of_tree, texts, worktree
from lab.seeded_bugs.reach import reaching

ROOT = Path(__file__).parents[2]
FILES = {
    "pyproject.toml": "[tool.pytest.ini_options]\nmarkers = ['slow', 'network', 'gpu']",
    "swarm_node/__init__.py": "",
    "swarm_node/adding.py": "def added(a, b):\n    return a + b\n",
    "swarm_node/unread.py": "def negative(a):\n    return -a\n",
    "tests/test_broken.py": (
        "from swarm_node import adding\n\n\ndef test_it():\n    assert not adding\n"
    ),
    "tests/test_sum.py": """import subprocess, sys

PROGRAM = "from swarm_node.adding import added; print(added(2, 3))"

def test_a_process_prints_the_sum():
    assert subprocess.check_output([sys.executable, "-c", PROGRAM]) == b"5\\n"
""",
    "tests/test_unread.py": (
        "import swarm_node.unread\n\n\ndef test_nothing():\n    assert swarm_node.unread\n"
    ),
}
WRONG = Bug("a difference for a sum", "return a + b", "return a - b")
UNREAD = Bug("what no test looks at", "return -a", "return a")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    git = [
        "git",
        "-C",
        str(tmp_path),
        "-c",
        "user.name=somebody",
        "-c",
        "user.email=somebody@localhost",
    ]
    for words in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "-m", "Add"]):
        subprocess.run([*git, *words], check=True)
    return tmp_path


def test_there_are_forty_bugs_each_in_one_place_and_each_leaves_code_that_can_be_read() -> None:
    spelt = of_tree(load(), ROOT)
    assert len(spelt) == 40 and [name for name, bug in spelt.items() if bug is None] == []
    shipped = texts(ROOT)
    for bug in filter(None, spelt.values()):
        (file,) = bug.places(shipped)
        ast.parse(shipped[file].replace(bug.before, bug.after), bug.name)
        assert bug.after.strip() != bug.before.strip()


@pytest.mark.slow
def test_a_test_reaches_what_it_imports_and_what_runs_in_the_processes_it_starts() -> None:
    near = {
        file.name: steps for file, steps in reaching(ROOT, ROOT / "protocol" / "codec.py").items()
    }
    assert near["test_codec.py"] == 1 < near["test_cli.py"] and not near.keys() & {
        "test_lru.py",
        "test_seeded_bugs.py",
    }


@pytest.mark.slow
def test_a_bug_is_caught_by_a_test_that_passes_without_it(repository: Path) -> None:
    with worktree(repository, "HEAD") as tree:
        caught, missed = (hunt(bug, tree, sys.executable, 120.0) for bug in (WRONG, UNREAD))
        assert (tree / caught.file).read_text() == FILES["swarm_node/adding.py"]
    assert not tree.exists()
    assert (caught.by, caught.note, caught.tests) == (
        "tests/test_sum.py::test_a_process_prints_the_sum",
        "",
        2,
    )
    assert caught.broken == ("tests/test_broken.py::test_it",)
    assert (missed.by, missed.note, missed.tests) == ("", "all tests pass", 1)


def test_a_line_that_is_there_twice_is_no_place_for_a_bug(repository: Path) -> None:
    other = Bug(WRONG.name, "return a+b", "return a-b")
    assert of_tree([WRONG, other, Bug("twice", "return", "")], repository) == {
        WRONG.name: WRONG,
        "twice": None,
    }
