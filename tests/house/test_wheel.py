"""What is published is whole: the sdist holds what git holds, the wheel runs where there is no checkout."""

import os
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.commands import ENDS_SECONDS

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
SHARE = "share/swarm-node/"  # below the prefix of an environment


def tracked(*folders: str) -> set[str]:
    command = ["git", "ls-files", "-z", *folders]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return {name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist and the wheel made from it. Of a copy: an old build folder must not add to them."""
    folder = tmp_path_factory.mktemp("built")
    for name in tracked():
        (folder / "source" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / "source" / name)
    compiled = folder / "source" / "swarm_node" / "starters" / "__pycache__" / "left_over.pyc"
    compiled.parent.mkdir()
    compiled.touch()
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, folder / "source"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def python(built: Path) -> Path:
    """Of an environment outside the checkout with the wheel in it. Dependencies are those of this one, by their path
    alone: an editable install there is a .pth file, which is not read from a folder that another .pth names."""
    home = built / "venv"
    venv.create(home)
    (wheel,) = built.glob("*.whl")
    python = home / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", "--quiet", wheel]
    subprocess.run(pip, check=True)
    torch = find_spec("torch")
    assert torch is not None and torch.origin is not None
    (packages,) = home.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(str(Path(torch.origin).parents[1]))
    return python


def ran(python: Path, *arguments: object) -> str:
    """Standard output of a command of the environment, started in a folder where nothing of the checkout is."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        [python.parent / "swarm-node", *map(str, arguments)],
        cwd=python.parents[1],
        env=clean,
        capture_output=True,
        text=True,
        timeout=ENDS_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_sdist_holds_every_file_that_git_holds(built: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        held = {member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()}
    made = {name for name in held if ".egg-info/" in name} | {"PKG-INFO", "setup.cfg"}
    assert held - made == tracked()


def test_the_wheel_holds_the_packages_with_their_data_and_what_a_user_reads(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        held = set(archive.namelist())
        (entry_points,) = (archive.read(name).decode() for name in held if name.endswith("dist-info/entry_points.txt"))
        (licence,) = (name for name in held if name.endswith("dist-info/licenses/LICENSE"))
    packages = tracked("swarm_node", "protocol")
    assert {"swarm_node/py.typed", "protocol/py.typed", "protocol/README.md"} <= packages
    pages = {name for name in tracked(":(glob)*.md", "docs") if name.endswith(".md")}
    read = tracked("configs", "data", "deploy") | pages
    shared = {name for name in held if ".data/data/" in name}
    assert {name.partition(".data/data/")[2] for name in shared} == {SHARE + name for name in read}
    scripts = {name for name in held if ".data/scripts/" in name}
    assert sorted(Path(name).name for name in scripts) == ["swarm-node", "textswarm"]
    assert {name for name in held - shared - scripts if ".dist-info/" not in name} == packages
    assert "temporal_clue = swarm_node.extensions.temporal_clue" in entry_points
    assert licence


def test_what_is_installed_runs_without_the_checkout(python: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SWARM_NODE_MODEL__NAME")  # it counts before a file
    program = "import protocol, swarm_node; print(protocol.__file__, swarm_node.__file__)"
    found = subprocess.run([python, "-I", "-c", program], cwd="/", capture_output=True, text=True, check=True)
    assert all(Path(path).is_relative_to(python.parents[1]) for path in found.stdout.split())
    assert "usage: swarm-node" in ran(python, "--help")
    configs = python.parents[1] / SHARE / "configs"
    assert "puzzler" in ran(python, "check", configs / "temporal_clue_small.toml")


def test_what_is_installed_trains_and_simulates(python: Path) -> None:
    small = ("--round.questions", 2, "--environment.tasks", "gcd/tiny", "--threads", 1)
    run = ("run", "--home", "home", "--network.no-enabled", "--max-rounds", 2, *small)
    assert "round 1 " in ran(python, *run)
    swarm = ("simulate", "--nodes", 2, "--rounds", 2, "--arms", "1/1", "--workers", 1, "--out", "report")
    ran(python, *swarm, *small)
    assert (python.parents[1] / "report" / "report.json").is_file()
    assert (python.parents[1] / "report" / "rewards.png").is_file()
