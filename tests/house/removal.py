"""Runs the core's tests where extensions are missing: `python -m tests.house.removal [--without
NAME ...|--each]`.

Each run has a folder of its own with a copy of the tracked files, less the folders of the removed
extensions and tests/extensions, and with a virtual environment in which the copy is installed. Its
pyproject.toml and its metadata do not register what was removed. PYTHONPATH would not be enough: a
process that reads what strangers send is started without the user's variables, and would import the
checkout.
"""

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
import venv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path

ROOT = Path(__file__).parents[2]
EXTENSIONS = Path("swarm_node", "extensions")
TESTS = ("tests/core", "tests/protocol")
REGISTERED = r'^[\w."]+ = "swarm_node\.extensions\.({names})[.:].*\n'  # a line of pyproject.toml
FOUND = """
import json
from importlib.metadata import distributions, entry_points
from importlib.util import find_spec
groups = {point.group for package in distributions() for point in package.entry_points}
named = {group: entry_points(group=group) for group in groups if group.startswith("swarm_node.")}
registered = [
    [group, point.name, point.value] for group, points in named.items() for point in points
]
places = {name: find_spec(name).origin for name in ("protocol", "swarm_node")}
print(json.dumps({"places": places, "registered": registered}))
"""
IMPORTS = """
import importlib, pkgutil, sys
import protocol, swarm_node
said = {}
for package in (protocol, swarm_node):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if module.name.startswith("swarm_node.extensions.") or module.name.endswith(".__main__"):
            continue
        try:
            importlib.import_module(module.name)
        except Exception as error:
            said[module.name] = f"{type(error).__name__}: {error}"
print("".join(f"{name}: {error}\\n" for name, error in said.items()), end="")
sys.exit(bool(said))
"""


def extensions() -> tuple[str, ...]:
    """The names of all extensions of the checkout."""
    return tuple(sorted(file.parent.name for file in (ROOT / EXTENSIONS).glob("*/__init__.py")))


@dataclass(frozen=True)
class Copy:
    """The tree without some extensions, and the interpreter that imports it."""

    tree: Path
    python: Path
    without: tuple[str, ...]

    def start(
        self, *arguments: str, where: Path | None = None
    ) -> "subprocess.CompletedProcess[str]":
        """Runs the interpreter with these arguments to its end, in the tree or elsewhere."""
        ours = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PYTHON", "PYTEST"))
        }
        line = [str(self.python), *arguments]
        return subprocess.run(
            line, cwd=where or self.tree, env=ours, capture_output=True, text=True, check=False
        )

    def check(self) -> None:
        """AssertionError if processes take a module or registered name from elsewhere, or a removed
        one is there.
        """
        for flags, where in ((("-P",), Path("/")), (("-I",), ROOT), ((), self.tree)):
            done = self.start(*flags, "-c", FOUND, where=where)
            assert done.returncode == 0, done.stderr
            found = json.loads(done.stdout)
            for name, place in found["places"].items():
                assert Path(place) == self.tree / name / "__init__.py", f"{name} comes from {place}"
            project = registered(self.tree)
            assert sorted(map(tuple, found["registered"])) == project, (
                "another distribution's entry points"
            )
        for name in self.without:
            assert not (self.tree / EXTENSIONS / name).exists()
            assert not [
                value
                for _, _, value in project
                if re.match(rf"swarm_node\.extensions\.{name}[.:]", value)
            ]

    def import_all(self) -> str:
        """Imports each module of the core. Returns a line for each exception, empty if there was
        none.
        """
        done = self.start("-P", "-c", IMPORTS)
        return (done.stdout or done.stderr) if done.returncode else ""


def registered(tree: Path) -> list[tuple[str, str, str]]:
    """Group, name and value of each entry point in the tree's pyproject.toml."""
    groups = tomllib.loads((tree / "pyproject.toml").read_text())["project"]["entry-points"]
    return sorted(
        (group, name, value) for group, points in groups.items() for name, value in points.items()
    )


@contextmanager
def copied(without: Sequence[str]) -> Iterator[Copy]:
    """A copy without these extensions, deleted in the end."""
    with tempfile.TemporaryDirectory(prefix="removal-") as folder:
        tree, home = Path(folder, "tree").resolve(), Path(folder, "venv").resolve()
        copy_tracked(tree)
        shutil.rmtree(tree / "tests" / "extensions")
        for name in without:
            shutil.rmtree(tree / EXTENSIONS / name)
        project = tree / "pyproject.toml"
        named = re.compile(REGISTERED.format(names="|".join(map(re.escape, without))), re.M)
        project.write_text(named.sub("", project.read_text()))
        copy = Copy(tree, installed(tree, home), tuple(without))
        copy.check()
        yield copy


def copy_tracked(to: Path) -> None:
    """Copies the files that git knows, as they are in the checkout now."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, to / name)


def installed(tree: Path, home: Path) -> Path:
    """The interpreter of a new environment in `home` that has the tree and its metadata, and our
    dependencies. A .pth file names their folders, so that Python does not read the .pth files in
    these: one is the editable install.
    """
    venv.create(home)
    (packages,) = home.glob("lib/python*/site-packages")
    paths = dict.fromkeys([str(tree), sysconfig.get_path("purelib"), sysconfig.get_path("platlib")])
    (packages / "tree.pth").write_text("\n".join(paths))
    version = tomllib.loads((tree / "pyproject.toml").read_text())["project"]["version"]
    metadata = packages / f"textswarm-{version}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: textswarm\nVersion: {version}\n"
    )
    with (metadata / "entry_points.txt").open("w") as file:
        for group, points in groupby(registered(tree), itemgetter(0)):
            file.writelines([f"[{group}]\n", *(f"{name} = {value}\n" for _, name, value in points)])
    shutil.copy(tree / "bin" / "swarm-node", home / "bin")
    return home / "bin" / "python"


def run(copy: Copy, arguments: Sequence[str]) -> "subprocess.CompletedProcess[str]":
    """Runs pytest in the copy with these arguments."""
    return copy.start(
        "-m", "pytest", "--continue-on-collection-errors", "-p", "no:cacheprovider", *arguments
    )


def main() -> int:
    """Removes what was asked for, says how the tests went, and ends with 1 if one failed."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.house.removal", description=__doc__.partition("\n")[0]
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--without", nargs="+", metavar="NAME", choices=extensions(), help="these; all by default"
    )
    which.add_argument(
        "--each", action="store_true", help="each extension alone, one after the other"
    )
    parser.add_argument(
        "--tests",
        nargs="+",
        metavar="PATH",
        default=TESTS,
        help="which tests; the core's by default",
    )
    parser.add_argument("arguments", nargs="*", metavar="-- ARGUMENT", help="of pytest")
    asked = parser.parse_args()
    # A shell's background commands ignore it: so would tests
    signal.signal(signal.SIGINT, signal.default_int_handler)
    runs = (
        [(name,) for name in extensions()] if asked.each else [tuple(asked.without or extensions())]
    )
    good = True
    for without in runs:
        with copied(without) as copy:
            broken = copy.import_all()
            result = run(copy, [*asked.tests, *asked.arguments])
        good &= not broken and result.returncode == 0
        sys.stdout.write(f"{broken}{result.stdout}{result.stderr}without {', '.join(without)}\n")
        sys.stdout.flush()
    return not good


if __name__ == "__main__":
    sys.exit(main())
