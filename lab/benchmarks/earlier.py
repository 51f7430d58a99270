"""Programs of an earlier commit, in a virtual environment of their own beside the tree's.

The environment holds the code of that commit and its entry points, and sees the packages of this
environment. A .pth file names all of them. Python reads no .pth file in a folder that a .pth file
names, and so it does not see the tree, which is installed here by such a file. The metadata of the
earlier code stand before those of the tree, so `importlib.metadata` takes the plug-ins of the
earlier code for those of `textswarm`.
"""

import io
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from lab.benchmarks.command import ROOT

# What runs, and what says what is plugged in. Commits before the scripts of pyproject.toml had
# their command in a file of this folder, and others do not have it.
NEEDED, SCRIPTS = ("swarm_node", "protocol", "pyproject.toml"), "bin"
# By these a hook of git tells the programs that it starts which repository it means
OF_GIT = ("GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE")


def outside_git(variables: Mapping[str, str] = os.environ) -> dict[str, str]:
    """These variables, without those by which git names its repository to a hook."""
    return {name: value for name, value in variables.items() if name not in OF_GIT}


def is_here(commit: str) -> bool:
    """Whether the repository of the tree has this commit. A folder made from an sdist has none."""
    return has(f"{commit}^{{commit}}")


@cache
def has(thing: str) -> bool:
    """Whether the repository of the tree has this object, such as COMMIT:PATH."""
    line = ["git", "-C", str(ROOT), "cat-file", "-e", thing]
    try:
        return (
            subprocess.run(line, env=outside_git(), capture_output=True, check=False).returncode
            == 0
        )
    except FileNotFoundError:
        return False


class Earlier:
    """The programs of an earlier commit."""

    def __init__(self, code: Path, folder: Path) -> None:
        """Makes an environment in this folder for the code of another."""
        self.python = folder / "venv" / "bin" / "python"
        project = tomllib.loads((code / "pyproject.toml").read_text())["project"]
        metadata = folder / "metadata" / f"textswarm-{project['version']}.dist-info"
        metadata.mkdir(parents=True)
        (metadata / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: textswarm\nVersion: {project['version']}\n"
        )
        (metadata / "entry_points.txt").write_text(_entry_points(project["entry-points"]))
        venv.create(folder / "venv")
        if (script := code / SCRIPTS / "swarm-node").exists():
            shutil.copy(script, self.python.parent)
        packages = [
            path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")
        ]
        (its_site,) = (folder / "venv").glob("lib/python*/site-packages")
        (its_site / "earlier.pth").write_text(
            "\n".join([str(metadata.parent), str(code), *packages]) + "\n"
        )

    def command(self, *arguments: object) -> list[str]:
        """What starts `swarm-node` of the earlier code."""
        return [str(self.python), "-P", "-m", "swarm_node.commands.cli", *map(str, arguments)]

    def ended_well(self, *arguments: object, **options: Any) -> str:
        """Standard output of a command that has ended with 0."""
        done = subprocess.run(
            self.command(*arguments), capture_output=True, text=True, check=False, **options
        )
        assert done.returncode == 0, done.stdout + done.stderr
        printed: str = done.stdout
        return printed


def unpacked(folder: Path, commit: str) -> Earlier:
    """The programs of a commit of this repository, unpacked into this folder."""
    scripts = [SCRIPTS] if has(f"{commit}:{SCRIPTS}") else []
    line = ["git", "-C", str(ROOT), "archive", commit, *NEEDED, *scripts]
    packed = subprocess.run(line, env=outside_git(), capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(folder / "code", filter="data")
    return Earlier(folder / "code", folder)


def _entry_points(groups: Mapping[str, Mapping[str, str]]) -> str:
    """The text of entry_points.txt, as an installer writes it."""
    lines = []
    for group, names in groups.items():
        lines += [f"[{group}]", *(f"{name} = {target}" for name, target in names.items()), ""]
    return "\n".join(lines)
