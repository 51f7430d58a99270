"""Guards what must hold of the structure of the source tree, whatever its size."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.house import structure

ROOT = Path(__file__).parents[2]
PATH = ROOT / "tests" / "house" / "path.txt"  # of a group; lab.benchmarks.group_path writes it
START = "6bddc251b29f69891c1419cd94b51cabb1b7535d"  # subjects of commits are short since then
LONGEST_SUBJECT = 72


@pytest.fixture(scope="module")
def tree() -> structure.Tree:
    return structure.Tree(ROOT)


def test_no_files_depend_on_each_other_in_a_circle(tree: structure.Tree) -> None:
    assert structure.circles(tree) == set()


def test_what_ships_needs_neither_lab_nor_tests_and_a_node_names_nothing_beside_it(
    tree: structure.Tree,
) -> None:
    assert structure.forbidden(tree) == []


def test_every_file_on_the_path_of_a_group_exists() -> None:
    lines = PATH.read_text().splitlines()
    assert len(lines) == len({*lines}) > 0
    missing = [line for line in lines if not (ROOT / line).is_file()]
    assert missing == [], "trace it again: python -m lab.benchmarks.group_path --write"


def test_a_group_becomes_a_message_in_one_place() -> None:
    made = re.compile(r"\bRolloutGroup\(")
    makers = [
        str(file.relative_to(ROOT))
        for room in ("swarm_node", "lab", "tests")
        for file in ROOT.glob(f"{room}/**/*.py")
        if made.search(file.read_text("utf-8"))
    ]
    assert makers == ["swarm_node/rollouts/groups.py"], "a new field has to reach each of them"


def test_commit_subjects_have_at_most_72_characters() -> None:
    assert long_subjects(ROOT, START) == []


def environment() -> dict[str, str]:
    """The environment without the variables by which git tells a hook its repository."""
    of_hooks = ("GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE")
    return {key: value for key, value in os.environ.items() if key not in of_hooks}


def git(root: Path, *words: str) -> str | None:
    """What git prints. None if it fails, as it does where there is no repository."""
    command = ["git", "-C", root, *words]
    try:
        done = subprocess.run(command, capture_output=True, env=environment(), check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.decode(errors="replace")


def long_subjects(root: Path, start: str) -> list[str]:
    """Subjects above 72 characters of the commits since `start`; none where git does not have that
    commit.
    """
    subjects = git(root, "log", "--format=%s", f"{start}..HEAD") or ""
    return [subject for subject in subjects.split("\n") if len(subject) > LONGEST_SUBJECT]


# Below, each complaint is provoked once in a tiny tree, to show that the guard can fail.

TINY = {
    "protocol/__init__.py": "",
    "protocol/messages.py": "class RolloutGroup: ...\n",
    "swarm_node/__init__.py": "",
    "swarm_node/common/__init__.py": "",
    "swarm_node/common/files.py": "def write() -> None: ...\n",
    "swarm_node/node/loop.py": "from swarm_node.common.files import write\n",
    "swarm_node/page/app.py": "from swarm_node.common import files\n",
    "lab/benchmarks/step.py": "import swarm_node.node.loop\n",
    "tests/waiting.py": "",
}
FILES = "swarm_node/common/files.py"
PAGE = "swarm_node/page/app.py"


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    for name, text in TINY.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def plant(root: Path, text: str, name: str = FILES) -> None:
    with (root / name).open("a") as file:
        file.write(text + "\n")


def test_a_tiny_tree_has_no_circle_and_nothing_forbidden(tiny: Path) -> None:
    tree = structure.Tree(tiny)
    assert structure.circles(tree) == set() and structure.forbidden(tree) == []
    assert tree.depends["swarm_node.node.loop"] == {"swarm_node.common.files"}


@pytest.mark.parametrize(
    "text", ["import swarm_node.node.loop", 'LOOP = "swarm_node.node.loop:main"']
)
def test_a_circle_is_seen(tiny: Path, text: str) -> None:
    plant(tiny, text)
    in_it = frozenset({"swarm_node.common.files", "swarm_node.node.loop"})
    assert structure.circles(structure.Tree(tiny)) == {in_it}


@pytest.mark.parametrize(
    "text",
    [
        "import swarm_node.page.app",
        "from ..page import app",
        "def late():\n    from swarm_node.page.app import Page",
        "if TYPE_CHECKING:\n    from swarm_node.page import app",
        'PAGE = "swarm_node.page.app:Page"',
        'words = [sys.executable, "-m", "swarm_node.page.app"]',
    ],
)
def test_a_page_that_a_node_names_is_seen(tiny: Path, text: str) -> None:
    plant(tiny, text)
    arrow = "swarm_node.common.files -> swarm_node.page.app"
    assert structure.forbidden(structure.Tree(tiny)) == [arrow]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (FILES, "from lab.benchmarks import step"),
        (FILES, "import lab"),
        (FILES, 'STEP = "lab.benchmarks.step"'),
        (FILES, "from tests.waiting import until"),
        (PAGE, "import lab.benchmarks.step"),
    ],
)
def test_what_ships_is_not_to_need_lab_or_tests(tiny: Path, name: str, text: str) -> None:
    plant(tiny, text, name)
    assert len(structure.forbidden(structure.Tree(tiny))) == 1


def commit(root: Path, subject: str) -> None:
    ours = environment() | {
        f"GIT_{who}_{what}": "someone"
        for who in ("AUTHOR", "COMMITTER")
        for what in ("NAME", "EMAIL")
    }
    ours["GIT_CONFIG_GLOBAL"] = os.devnull
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", subject]):
        subprocess.run(["git", "-C", root, *words], check=True, env=ours)


def test_a_long_subject_is_seen_after_the_start_alone(tiny: Path) -> None:
    commit(tiny, "a" * 73)
    start = (git(tiny, "rev-parse", "HEAD") or "").strip()
    plant(tiny, "# one")
    commit(tiny, "b" * 73 + "\n\nWhy.")
    plant(tiny, "# two")
    commit(tiny, "c" * 72)
    assert long_subjects(tiny, start) == ["b" * 73]
    assert long_subjects(tiny, START) == []  # a history without that commit
