"""The script of `completion` completes commands, options and files."""

from pathlib import Path

import pytest

from swarm_node.commands.cli import dispatch
from swarm_node.commands.table import entries
from swarm_node.common.errors import UserError
from swarm_node.extensions.completion.command import FISH_INPUT
from tests.commands import completed, ended

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    result = ended("completion", "bash")
    assert result.returncode == 0, result.stderr
    file = tmp_path_factory.mktemp("completion") / "swarm-node.bash"
    file.write_text(result.stdout)
    return file


def test_bash_completes_commands(script: Path) -> None:
    assert completed(script, "") >= set(entries())
    assert completed(script, "ch") == {"check"}


def test_bash_completes_options_their_short_names_and_their_values(script: Path) -> None:
    assert completed(script, "run", "--environment.tim") == {"--environment.time-limit"}
    assert completed(script, "check", "--al") == {"--all"}
    assert completed(script, "run", "--pe") == {"--peers"}
    assert completed(script, "run", "--model.dtype", "b") == {"bfloat16"}


def test_bash_completes_files(script: Path, tmp_path: Path) -> None:
    (tmp_path / "node.toml").touch()
    assert completed(script, "run", "no", folder=tmp_path) == {"node.toml"}


def test_zsh_and_fish_have_scripts_too_and_others_are_refused() -> None:
    assert ended("completion", "zsh").stdout.startswith("#compdef swarm-node")
    fish = ended("completion", "fish").stdout
    assert "complete --no-files --command 'swarm-node'" in fish
    assert FISH_INPUT in fish, "tyro's script has changed: is all of it an argument of python now?"
    refused = ended("completion", "cmd.exe")
    assert refused.returncode == 2 and "cmd.exe" in refused.stderr


def test_another_shell_is_one_line() -> None:
    with pytest.raises(UserError, match=r"swarm-node completion bash\|zsh\|fish") as caught:
        dispatch(["completion", "tcsh"])
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 280
