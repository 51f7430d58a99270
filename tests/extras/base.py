"""The base install: it starts, trains, and says in one line which extra is missing.

Named on the command line by `make test-extras`, in an environment without any extra; elsewhere
nothing collects it. Run from another folder, so that what is tested is what was installed.
"""

import subprocess
import sys
from importlib.metadata import distributions
from pathlib import Path

import pytest

from tests.commands import ended, ended_well

HOME = Path(__file__).parents[1] / "data" / "home"
TRL = """
from swarm_node import UserError
from swarm_node.integrations.trl.guest import Swarm
try:
    Swarm()
except UserError as error:
    print(error)
"""


def test_no_extra_is_installed() -> None:
    installed = {distribution.name for distribution in distributions()}
    assert "textswarm" in installed
    assert not installed & {
        "libp2p",
        "docker",
        "trl",
        "datasets",
        "math-verify",
        "verifiers",
        "gguf",
        "trackio",
    }


def test_it_starts_and_trains_a_round(tmp_path: Path) -> None:
    ended_well("--help", cwd=tmp_path)
    small = ("--round.questions", 2, "--environment.tasks", "gcd/tiny", "--max-rounds", 1)
    result = ended_well("run", "--home", tmp_path / "home", *small, cwd=tmp_path)
    assert "round 0 " in result.stdout


def test_a_script_without_trl_is_told_what_to_install(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", TRL], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.stdout == "TRL is not installed: pip install 'textswarm[trl]'\n", done.stderr


@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        (("run", "--network.backend", "libp2p", "--home", "home"), "libp2p"),
        (("bootstrap", "--backend", "libp2p", "--host", "127.0.0.1", "--home", "home"), "libp2p"),
        (("run", "--training.optimizer", "adamw_8bit", "--home", "home"), "memory"),
        (
            ("run", "--model.quantization", "nf4", "--model.lora-rank", 4, "--home", "home"),
            "memory",
        ),
        (("task", "try", "rows.parquet"), "data"),
        (("task", "try", "hf:some/rows"), "data"),
        (("task", "try", "rows.jsonl", "--verifier", "math"), "math"),
        (("run", "--taskset.name", "gsm8k", "--network.no-enabled", "--home", "home"), "verifiers"),
        (("model", "export", "model", "--home", HOME, "--gguf"), "gguf"),
        (("run", "--observers", "trackio", "--network.no-enabled", "--home", "home"), "trackio"),
    ],
)
def test_a_missing_extra_is_one_line_that_says_what_to_install(
    tmp_path: Path, arguments: tuple[object, ...], extra: str
) -> None:
    (tmp_path / "rows.parquet").write_bytes(b"PAR1")
    (tmp_path / "rows.jsonl").write_text('{"prompt": "1 + 1", "answer": "2"}\n')
    result = ended(*arguments, cwd=tmp_path)
    assert result.returncode == 2, result.stdout + result.stderr
    (line,) = (each for each in result.stderr.splitlines() if each.startswith("swarm-node: "))
    assert f"pip install 'textswarm[{extra}]'" in line and "Traceback" not in result.stderr
