"""One bug in a tree of its own, and the tests that should catch it."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from time import monotonic
from typing import Any

from lab.seeded_bugs.reach import SHIPPED, reaching

BUGS = Path(__file__).with_name("bugs.toml")
FAST = "not slow and not network and not gpu"
LATE = "not all tests were run in time"
NO_TESTS = 5  # exit code of pytest if the marks leave no test
LEAVE_SECONDS = 20.0  # for pytest to end what it has started
TWO_WORKERS = ("-n2", "--dist=loadfile", "--no-loadscope-reorder")
OPTIONS = ("-q", "-x", "--tb=no")


@dataclass(frozen=True, slots=True)
class Bug:
    """A mistake in one line of the code that users install."""

    name: str  # says what it breaks
    before: str
    after: str
    tests: tuple[str, ...] = ()  # names of files that are run first

    def places(self, texts: Mapping[Path, str]) -> list[Path]:
        """The files that have the line, each as often as the line occurs in it."""
        return [file for file, text in texts.items() for _ in range(text.count(self.before))]


@dataclass(frozen=True, slots=True)
class Outcome:
    """Whether the tests caught a bug, and which test did."""

    name: str
    change: str
    file: str  # in which the bug was
    caught: bool
    by: str  # the test that failed
    note: str  # why it was not caught
    tests: int  # number of test files that reach the bug's file
    broken: tuple[str, ...]  # tests that failed, and fail without the bug, too
    seconds: float


def load(file: Path = BUGS) -> list[Bug]:
    """All bugs. A bug whose line was reworded is listed once for each wording, under the same
    name.
    """
    return [
        Bug(**{**each, "tests": tuple(each.get("tests", ()))})
        for each in tomllib.loads(file.read_text())["bug"]
    ]


def texts(tree: Path) -> dict[Path, str]:
    """The Python files that users install."""
    return {
        file: file.read_text("utf-8")
        for top in SHIPPED
        for file in sorted((tree / top).rglob("*.py"))
    }


def of_tree(bugs: Sequence[Bug], tree: Path) -> dict[str, Bug | None]:
    """The bugs by name, as they are spelt in this tree; None where the line is not there exactly
    once.
    """
    shipped = texts(tree)
    there = {bug.name: bug for bug in bugs if len(bug.places(shipped)) == 1}
    return {bug.name: there.get(bug.name) for bug in bugs}


@contextmanager
def worktree(repository: Path, commit: str) -> Iterator[Path]:
    """The tree of a commit in a temporary folder."""
    git = ["git", "-C", str(repository), "worktree"]
    subprocess.run([*git, "prune"], check=True)  # what a kill has left over
    with tempfile.TemporaryDirectory(prefix="seeded-bugs-") as folder:
        tree = Path(folder).resolve() / "tree"
        subprocess.run([*git, "add", "--quiet", "--detach", str(tree), commit], check=True)
        try:
            yield tree
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], check=True)


def installed(tree: Path) -> str:
    """An interpreter with the libraries of this one, in which `tree` is installed.

    A PYTHONPATH is not enough: child processes that read data of strangers get no variables, and
    see no folder beyond their own environment's. So the environment is copied, by hard links.
    """
    copy = tree / ".venv"
    shutil.copytree(sys.prefix, copy, symlinks=True, copy_function=_linked)
    # Pip must not write into the original
    for pattern in ("lib/python*/site-packages/*swarm_node*", "bin/swarm-node", "bin/textswarm"):
        for path in copy.glob(pattern):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    python = str(copy / "bin" / "python")
    options = ("-q", "--disable-pip-version-check", "--no-deps", "--no-build-isolation")
    subprocess.run(
        [python, "-m", "pip", "install", *options, "-e", str(tree)], check=True, env=_environment()
    )
    asked = [
        python,
        "-s",
        "-P",
        "-c",
        "import protocol, swarm_node; print(protocol.__file__, swarm_node.__file__)",
    ]
    for file in subprocess.check_output(asked, text=True, cwd="/", env=_environment()).split():
        assert Path(file).is_relative_to(tree), f"{python} runs {file}"
    return python


def hunt(bug: Bug, tree: Path, python: str, limit: float) -> Outcome:
    """Puts the bug into the tree, runs the tests that reach it for at most `limit` seconds, and
    takes it out again.

    A test that fails has caught the bug if it passes without the bug. If it fails then, too, the
    other tests continue.
    """
    began = monotonic()
    shipped = texts(tree)
    (file,) = bug.places(shipped)
    whole, tests = shipped[file], reaching(tree, file)
    stages, by, broken = _stages(bug, tests), "", set[str]()
    while stages and not by:
        file.write_text(whole.replace(bug.before, bug.after), "utf-8")
        try:
            ran = _pytest(tree, python, *stages[0], broken, limit - (monotonic() - began))
        finally:
            file.write_text(whole, "utf-8")
        failed = (test for test in ran.failed if "::" in test)
        by = next(
            (
                test
                for test in failed
                if _pytest(tree, python, ["-n0"], [test], set(), limit).passed
            ),
            "",
        )
        broken.update(ran.failed)
        if not by and not ran.ended:
            break
        if not ran.failed:
            stages = stages[1:]
    broken.discard(by)
    note = "" if by else LATE if stages else "all tests pass"
    where, took = str(file.relative_to(tree)), round(monotonic() - began, 1)
    return Outcome(
        bug.name, change(bug), where, bool(by), by, note, len(tests), tuple(sorted(broken)), took
    )


def change(bug: Bug) -> str:
    """The bug's change as text, for people, and to match an outcome with a bug."""
    return f"{bug.before}  ->  {bug.after}"


def plain(outcome: Outcome) -> dict[str, Any]:
    """The outcome as a dictionary, for a file of JSON lines."""
    return asdict(outcome)


def _stages(bug: Bug, tests: dict[Path, int]) -> list[tuple[list[str], list[Path]]]:
    """Options of pytest and test files of each call: named files first, then those near the bug,
    fast before slow.
    """
    nearest = min(tests.values(), default=0)
    named, near, further, far = list[Path](), list[Path](), list[Path](), list[Path]()
    for file, steps in tests.items():
        by_distance = near if steps == nearest else further if steps <= nearest + 2 else far
        (named if file.name in bug.tests else by_distance).append(file)
    calls = [
        (files, ["-m", marks])
        for files in (near, further, far)
        for marks in (FAST, f"not ({FAST}) and not long")
    ]
    calls.insert(0, (named, []))
    return [
        ([*(TWO_WORKERS if len(files) > 1 else ["-n0"]), *marks], files)
        for files, marks in calls
        if files
    ]


@dataclass(frozen=True, slots=True)
class Ran:
    """A call of pytest."""

    ended: bool  # by itself, in time
    passed: bool
    failed: list[str]  # tests, and files that could not be imported


def _pytest(
    tree: Path,
    python: str,
    options: Sequence[str],
    tests: Sequence[str | Path],
    left_out: set[str],
    limit: float,
) -> Ran:
    """Runs these tests, or files, until the first failure."""
    names = [str(test).removeprefix(f"{tree}/") for test in tests]
    names = sorted(set(names) - left_out)
    if limit <= 0 or not names:
        return Ran(not names, not names, [])
    with tempfile.TemporaryDirectory() as cache:
        words = [python, "-m", "pytest", *OPTIONS, "-o", f"cache_dir={cache}", *options, *names]
        words += [word for test in sorted(left_out) for word in ("--deselect", test)]
        process = subprocess.Popen(
            words,
            cwd=tree,
            env=_environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            process_group=0,
        )
        code = _ended(process, limit)
        written = Path(cache, "v", "cache", "lastfailed")
        failed = list(json.loads(written.read_text())) if written.is_file() else []
    assert failed or code in (None, 0, NO_TESTS), f"pytest ended with {code}: {' '.join(words)}"
    return Ran(code is not None, code == 0, failed)


def _ended(process: "subprocess.Popen[bytes]", limit: float) -> int | None:
    """The exit code; None if the process did not end within `limit` seconds. Afterwards it is gone
    in any case.
    """
    try:
        return process.wait(limit)
    except subprocess.TimeoutExpired:
        return None
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                process.wait(LEAVE_SECONDS)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _environment() -> dict[str, str]:
    """This process's environment, without variables that lead to other code or another
    configuration.
    """
    return {
        name: text
        for name, text in os.environ.items()
        if not name.startswith(("PYTHON", "PYTEST", "SWARM_NODE"))
    }


def _linked(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system
        shutil.copy2(source, target)
