"""README's quick start, typed as it stands there in an empty folder: clone, install, train, ask.

The commands are README's, letter by letter, except for two things. The address of the page stands
for that of this checkout, whose last commit is cloned. And where torch comes from a folder of
wheels (PIP_FIND_LINKS), PyTorch's own index is not asked. Variables say what a test may not leave
open: a starter is trained, since no hub may answer here, and the network is that of this machine
alone.

It takes 1.4 GB of disk. Other tests ask the pre-trained model: tests/swarm/test_own_task.py.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lab.benchmarks.earlier import is_here, outside_git
from tests.commands import ENDS_SECONDS
from tests.swarm.test_own_task import block_below

ROOT = Path(__file__).parents[2]
URL = "git clone URL "  # as README says it, "`URL` is the address of this page"
BACKEND = "--torch-backend auto "

pytestmark = [
    pytest.mark.slow,
    pytest.mark.network,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(not is_here("HEAD"), reason="this is no clone of the repository"),
]


@pytest.fixture(scope="module")
def newcomer(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """The empty folder of a newcomer who has git and uv, and the variables of the shell."""
    folder, uv = tmp_path_factory.mktemp("newcomer"), tmp_path_factory.mktemp("uv")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(uv), "uv"]
    subprocess.run(pip, check=True)
    # Git opens no repository of another user, and a user who runs tests may not own the checkout
    (uv / "gitconfig").write_text("[safe]\n\tdirectory = *\n")
    path = f"{folder}/.local/bin:{uv}/bin:/usr/local/bin:/usr/bin:/bin"
    ours = ("PYTHON", "VIRTUAL", "SWARM_NODE", "UV_", "XDG_")
    variables = {
        name: value for name, value in outside_git().items() if not name.startswith(ours)
    } | {
        "HOME": str(folder),
        "PATH": path,
        "GIT_CONFIG_GLOBAL": str(uv / "gitconfig"),
        "UV_PYTHON": sys.executable,
        "SWARM_NODE_MODEL__NAME": "rare",
        "SWARM_NODE_NETWORK__HOST": "127.0.0.1",
        "SWARM_NODE_NETWORK__MDNS": "false",
    }
    if index := os.environ.get("PIP_INDEX_URL", ""):
        variables["UV_DEFAULT_INDEX"] = index
    if links := os.environ.get("PIP_FIND_LINKS", ""):
        variables["UV_FIND_LINKS"] = ",".join(links.split())
    return folder, variables


def typed_here(command: str) -> str:
    """The command of README for this machine."""
    command = command.replace(URL, f"git clone --quiet file://{ROOT} ")
    return command.replace(BACKEND, "") if os.environ.get("PIP_FIND_LINKS") else command


def test_the_quick_start_of_the_readme_works_in_an_empty_folder(
    newcomer: tuple[Path, dict[str, str]],
) -> None:
    folder, variables = newcomer
    commands = block_below("## Quick start")
    assert commands[0].startswith(URL) and BACKEND in commands[1], "README says it another way"
    assert list(folder.iterdir()) == []
    # One shell, as a newcomer has one: `cd` of the first line counts for the others
    script = "\n".join(typed_here(command) for command in commands)
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=folder,
        env=variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=3 * ENDS_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "round 19  reward" in done.stdout and "stopped after 20 rounds" in done.stdout
    _, _, asked = done.stdout.partition("stopped after 20 rounds")
    assert "before" in asked and "after 20 rounds" in asked
    program = folder / ".local" / "bin" / "swarm-node"
    tools = folder / ".local" / "share" / "uv" / "tools"
    assert program.resolve().is_relative_to(tools), "uv installed it, not this environment"
