"""Guards the structure of the source tree: no value of `measure.py` exceeds its bound in
`bounds.toml`.

A bound that became easier to keep is lowered in the same commit. A bound rises only by a release
whose notes say so: until then the bounds and the counting of the newest release tag hold, too.
"""

import json
import os
import subprocess
import tomllib
import warnings
from pathlib import Path
from types import UnionType
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from swarm_node.settings import NodeConfig
from tests.commands import python
from tests.house import measure

ROOT = Path(__file__).parents[2]
HOUSE = Path("tests", "house")
START = "6bddc251b29f69891c1419cd94b51cabb1b7535d"  # subjects of commits are short since then
LONGEST_SUBJECT = 72
SLACK = 0.02  # how far a bound may be above its value, as a share of the bound
EXACT_BELOW = 50  # no slack for values below this


def bounds_of(text: str) -> dict[str, int]:
    """The bounds, with what the table `later` adds to them."""
    found = tomllib.loads(text)
    return {
        key: bound + found.get("later", {}).get(key, 0) for key, bound in found["bounds"].items()
    }


def too_much(measured: dict[str, int], bounds: dict[str, int]) -> list[str]:
    """One sentence for each value above its bound, and for each key that only one side has."""
    unpaired = [
        f"{key} has a value or a bound, but not both"
        for key in sorted(measured.keys() ^ bounds.keys())
    ]
    both = [key for key in bounds if key in measured]
    return unpaired + [
        (
            f"{key} is {measured[key]}, and at most {bounds[key]} is allowed (measure.py --names "
            "lists what is counted)"
        )
        for key in both
        if measured[key] > bounds[key]
    ]


def too_loose(measured: dict[str, int], bounds: dict[str, int]) -> list[str]:
    """One sentence for each bound that is to be lowered to its value."""
    return [
        f"{key} is {value}: lower its bound from {bounds[key]}"
        for key, value in measured.items()
        if key in bounds
        and bounds[key] - value > (SLACK * bounds[key] if value >= EXACT_BELOW else 0)
    ]


def environment() -> dict[str, str]:
    """The environment without the variables by which git tells a hook its repository."""
    return {
        key: value
        for key, value in os.environ.items()
        if key not in ("GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE")
    }


def git(root: Path, *words: str) -> str | None:
    """What git prints. None if it fails, as it does where there is no repository."""
    try:
        done = subprocess.run(
            ["git", "-C", root, *words], capture_output=True, env=environment(), check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.decode(errors="replace")


def newest_release(root: Path) -> str | None:
    """The newest tag of a release before or at the present commit that has bounds and their
    measure.
    """
    tags = git(
        root,
        "tag",
        "--merged",
        "HEAD",
        "--list",
        "v[0-9]*",
        "--sort=-version:refname",
        "--sort=-creatordate",
    )
    return next((tag for tag in (tags or "").split() if all(released(root, tag).values())), None)


def released(root: Path, tag: str) -> dict[str, str | None]:
    return {
        name: git(root, "show", f"{tag}:{HOUSE.as_posix()}/{name}")
        for name in ("bounds.toml", "measure.py")
    }


def loosened(root: Path, folder: Path) -> list[str]:
    """What the newest release would not have allowed, by its bounds and its way of counting.
    `folder` is for a script.

    Its own `measure.py` counts the present tree, so that a weaker way of counting is seen, too.
    """
    tag = newest_release(root)
    if tag is None:
        warnings.warn(
            "No release tag has tests/house: there is no earlier bound to compare with.",
            stacklevel=2,
        )
        return []
    then = released(root, tag)
    bounds, present = (
        bounds_of(then["bounds.toml"] or ""),
        bounds_of((root / HOUSE / "bounds.toml").read_text()),
    )
    raised = [
        f"the bound of {key} is {present.get(key, 'gone')}, and was {bound} in {tag}"
        for key, bound in bounds.items()
        if key not in present or present[key] > bound
    ]
    program = folder / "measure_of_release.py"
    program.write_text(then["measure.py"] or "")
    done = python(program, root)
    assert done.returncode == 0, f"measure.py of {tag} fails: {done.stderr}"
    return raised + [
        f"as {tag} counts: {each}" for each in too_much(json.loads(done.stdout), bounds)
    ]


def long_subjects(root: Path, start: str) -> list[str]:
    """Subjects above 72 characters of the commits since `start`; none where git does not have that
    commit.
    """
    subjects = git(root, "log", "--format=%s", f"{start}..HEAD") or ""
    return [each for each in subjects.split("\n") if len(each) > LONGEST_SUBJECT]


@pytest.fixture(scope="module")
def house() -> measure.House:
    return measure.House(ROOT)


@pytest.fixture(scope="module")
def measured(house: measure.House) -> dict[str, int]:
    return measure.measure(house)


BOUNDS = bounds_of((ROOT / HOUSE / "bounds.toml").read_text())


def test_no_value_is_above_its_bound(measured: dict[str, int]) -> None:
    assert too_much(measured, BOUNDS) == []


def test_no_bound_is_far_above_its_value(measured: dict[str, int]) -> None:
    assert too_loose(measured, BOUNDS) == []


def test_the_file_of_bounds_has_bounds_and_wanted_values_of_the_same_keys_and_nothing_else() -> (
    None
):
    found = tomllib.loads((ROOT / HOUSE / "bounds.toml").read_text())
    assert (
        found.keys() == {"bounds", "later", "wanted"}
        and found["bounds"].keys() == found["wanted"].keys()
    )


def test_the_newest_release_would_allow_the_present_tree(tmp_path: Path) -> None:
    assert loosened(ROOT, tmp_path) == []


def test_commit_subjects_have_at_most_72_characters() -> None:
    assert long_subjects(ROOT, START) == []


def test_every_file_on_the_path_of_a_group_exists() -> None:
    lines = (ROOT / measure.PATH).read_text().splitlines()
    assert len(lines) == len({*lines})
    missing = [line for line in lines if not (ROOT / line).is_file()]
    assert missing == [], "trace it again: python -m lab.benchmarks.group_path --write"


def test_the_options_found_in_the_text_are_those_of_the_class(house: measure.House) -> None:
    def leaves(kind: Any, name: str) -> set[str]:
        if (
            isinstance(kind, type)
            and not isinstance(kind, UnionType)
            and issubclass(kind, BaseModel)
        ):
            fields = kind.model_fields.items()
            return {
                leaf
                for key, entry in fields
                for leaf in leaves(entry.annotation, f"{name}.{key}".lstrip("."))
            }
        inner = {leaf for each in get_args(kind) for leaf in leaves(each, name)}
        return inner - {name} or {name}

    assert measure.options(house) == leaves(NodeConfig, "")


# Below, each complaint is provoked once in a tiny tree, to show that the guard can fail.

TINY = {
    "protocol/__init__.py": "",
    "protocol/messages.py": "class RolloutGroup: ...\n",
    "swarm_node/__init__.py": "",
    "swarm_node/common/__init__.py": "",
    "swarm_node/common/files.py": "def write() -> None: ...\n",
    "swarm_node/node/loop.py": "from swarm_node.common.files import write\n",
    "swarm_node/settings/__init__.py": (
        "class Section: ...\n\n\nclass RoundConfig(Section):\n    questions: int = 4\n\n\n"
        "class NodeConfig(Section):\n    seed: int = 0\n    round: RoundConfig = RoundConfig()\n"
    ),
    "swarm_node/extensions/page/app.py": "from swarm_node.common import files\n",
    "lab/benchmarks/step.py": "import swarm_node.node.loop\n",
    "tests/waiting.py": "",
    "docs/reference/options.md": "This page is generated.\n",
}


FILES = "swarm_node/common/files.py"


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    tree = tmp_path / "tree"
    for name, text in TINY.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)
    return tree


def measured_in(tree: Path) -> dict[str, int]:
    return measure.measure(measure.House(tree))


def plant(tree: Path, text: str, name: str = FILES) -> None:
    with (tree / name).open("a") as file:
        file.write(text + "\n")


def test_a_tiny_tree_is_measured(tiny: Path) -> None:
    none = ("core_to_extensions", "shipped_to_lab", "file_circles", "wrappers", "process_starters")
    edges = {"rooms": 4, "arrows": 1, "file_edges": 1, "loop_fan_out": 1, "fan_out": 1}
    lines = {
        "core_lines": 13,
        "shipped_lines": 14,
        "lab_lines": 1,
        "longest_file": 10,
        "longest_function": 1,
    }
    others = {"options": 2, **dict.fromkeys(("test_lines", "path", "doc_words"), 0)}
    assert measured_in(tiny) == {**edges, **lines, **others, **dict.fromkeys(none, 0)}


IN_THE_CORE = [
    ("core_to_extensions", "import swarm_node.extensions.page.app"),
    ("core_to_extensions", "from ..extensions.page import app"),
    ("core_to_extensions", "def late():\n    from swarm_node.extensions.page.app import Page"),
    ("core_to_extensions", "if TYPE_CHECKING:\n    from swarm_node.extensions.page import app"),
    ("core_to_extensions", 'PAGE = "swarm_node.extensions.page.app:Page"'),
    ("core_to_extensions", 'words = [sys.executable, "-m", "swarm_node.extensions.page.app"]'),
    ("shipped_to_lab", "from lab.benchmarks import step"),
    ("shipped_to_lab", "import lab"),
    ("shipped_to_lab", 'STEP = "lab.benchmarks.step"'),
    ("shipped_to_lab", "from tests.waiting import until"),
    ("arrows", "import protocol.messages"),
    ("file_edges", "import swarm_node.settings"),
    ("fan_out", "import swarm_node.settings, protocol.messages"),
    ("file_circles", "import swarm_node.node.loop"),
    ("file_circles", 'LOOP = "swarm_node.node.loop:main"'),
    ("wrappers", 'class Waiting:\n    groups: dict[str, list["RolloutGroup | None"]]'),
    ("process_starters", "import subprocess\nsubprocess.Popen"),
    ("process_starters", "from subprocess import Popen as start"),
    ("core_lines", "# a comment"),
    ("longest_file", "\n" * 10),
    ("longest_function", "async def long() -> None:\n    pass"),
]
ELSEWHERE = [
    ("rooms", "", "swarm_node/policy.py"),
    ("loop_fan_out", "import swarm_node.settings", "swarm_node/node/loop.py"),
    ("options", "    home: str = '~'", "swarm_node/settings/__init__.py"),
    ("shipped_lines", "# a comment", "swarm_node/extensions/page/app.py"),
    ("shipped_to_lab", "import lab.benchmarks.step", "swarm_node/extensions/page/app.py"),
    ("lab_lines", "# a comment", "lab/benchmarks/step.py"),
    ("test_lines", "# a comment", "tests/waiting.py"),
    ("path", "protocol/messages.py", "tests/house/path.txt"),
    ("doc_words", "One more page.", "README.md"),
]


@pytest.mark.parametrize(
    ("key", "text", "name"), [*((*each, FILES) for each in IN_THE_CORE), *ELSEWHERE]
)
def test_what_is_planted_is_seen(tiny: Path, key: str, text: str, name: str) -> None:
    bounds = measured_in(tiny)
    (tiny / name).parent.mkdir(exist_ok=True)
    plant(tiny, text, name)
    assert any(each.startswith(f"{key} is ") for each in too_much(measured_in(tiny), bounds))


def test_a_key_without_a_bound_and_a_bound_without_a_value_are_seen() -> None:
    assert too_much({"rooms": 1, "arrows": 1}, {"rooms": 1}) == [
        "arrows has a value or a bound, but not both"
    ]
    assert too_much({"rooms": 1}, {"rooms": 1, "doors": 1}) == [
        "doors has a value or a bound, but not both"
    ]


@pytest.mark.parametrize(
    ("value", "bound", "loose"),
    [(49, 50, True), (49, 49, False), (980, 1000, False), (979, 1000, True)],
)
def test_a_bound_follows_a_value_that_fell(value: int, bound: int, loose: bool) -> None:
    assert bool(too_loose({"arrows": value}, {"arrows": bound})) == loose


def commit(tree: Path, subject: str, *tags: str, day: int = 1) -> None:
    (tree / HOUSE).mkdir(exist_ok=True)
    when = f"2030-01-{day:02}T00:00:00Z"
    ours = environment() | {
        f"GIT_{who}_{what}": "someone"
        for who in ("AUTHOR", "COMMITTER")
        for what in ("NAME", "EMAIL")
    }
    ours |= {"GIT_AUTHOR_DATE": when, "GIT_COMMITTER_DATE": when, "GIT_CONFIG_GLOBAL": os.devnull}
    for words in (
        ["init", "-q"],
        ["add", "-A"],
        ["commit", "-qm", subject],
        *(["tag", tag] for tag in tags),
    ):
        subprocess.run(["git", "-C", tree, *words], check=True, env=ours)


def write_bounds(tree: Path, **changed: int) -> None:
    found = {**measured_in(tree), **changed}
    lines = ["[bounds]", *(f"{key} = {value}" for key, value in found.items())]
    (tree / HOUSE / "bounds.toml").write_text("\n".join(lines) + "\n")


@pytest.fixture
def repository(tiny: Path) -> Path:
    """The tiny tree with a guard. Its release v0.9.0 had none, and v0.10.0 has one."""
    commit(tiny, "Begin", "v0.9.0")
    (tiny / HOUSE / "measure.py").write_text(Path(measure.__file__).read_text())
    write_bounds(tiny)
    write_bounds(tiny)  # now with the lines of measure.py itself
    commit(tiny, "Add a guard", "v0.10.0", "other")
    return tiny


def test_the_same_tree_is_as_good_as_its_release(repository: Path, tmp_path: Path) -> None:
    assert newest_release(repository) == "v0.10.0" and loosened(repository, tmp_path) == []


@pytest.mark.parametrize(("written", "now"), [("arrows = 2\n", "2"), ("", "gone")])
def test_a_bound_that_is_raised_or_gone_is_seen(
    repository: Path, tmp_path: Path, written: str, now: str
) -> None:
    file = repository / HOUSE / "bounds.toml"
    file.write_text(file.read_text().replace("arrows = 1\n", written))
    assert loosened(repository, tmp_path) == [f"the bound of arrows is {now}, and was 1 in v0.10.0"]


def test_a_weaker_way_of_counting_is_seen_beside_the_release(
    repository: Path, tmp_path: Path
) -> None:
    (repository / HOUSE / "measure.py").write_text("print({})\n")
    plant(repository, 'PAGE = "swarm_node.extensions.page.app:Page"')
    (found,) = [each for each in loosened(repository, tmp_path) if "core_to_extensions" in each]
    assert found.startswith("as v0.10.0 counts: core_to_extensions is 1, and at most 0 is allowed")


def test_the_newest_release_is_the_one_to_compare_with(repository: Path, tmp_path: Path) -> None:
    plant(repository, "import protocol.messages")
    write_bounds(repository)
    assert loosened(repository, tmp_path) != []
    commit(repository, "Let files know messages, as the notes say", "v0.11.0", day=2)
    assert loosened(repository, tmp_path) == []


def test_a_long_subject_is_seen_after_the_start_alone(tiny: Path) -> None:
    commit(tiny, "a" * 73)
    start = (git(tiny, "rev-parse", "HEAD") or "").strip()
    plant(tiny, "# one")
    commit(tiny, "b" * 73 + "\n\nWhy.")
    plant(tiny, "# two")
    commit(tiny, "c" * 72)
    assert long_subjects(tiny, start) == ["b" * 73]
    assert long_subjects(tiny, START) == []  # a history without that commit
