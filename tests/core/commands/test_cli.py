"""The command line as a user meets it: real processes, what they print, how they end."""

import json
import os
import re
import subprocess
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

import pytest

from swarm_node.commands import cli
from swarm_node.commands.cli import dispatch
from swarm_node.common.errors import UserError
from swarm_node.settings import NodeConfig
from swarm_node.settings.options import flatten
from tests.commands import ended, ended_well, python


def home_at(folder: Path) -> dict[str, str]:
    return {**os.environ, "SWARM_NODE_HOME": str(folder)}


def assert_one_line(result: subprocess.CompletedProcess[str], *words: str) -> None:
    assert result.returncode == 2, result.stderr
    assert "Traceback" not in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1, result.stderr
    for word in words:
        assert word in result.stderr


@pytest.mark.slow
def test_python_m_is_the_command_and_says_its_version():
    said = f"swarm-node {version('textswarm')}\n"
    assert python("-m", "swarm_node", "--version").stdout == said == ended("--version").stdout


@pytest.mark.slow
def test_threads_do_not_spin_and_leaving_runs_exit_handlers():
    program = """
import atexit, os, sys
from swarm_node.commands.cli import main

del os.environ["OMP_WAIT_POLICY"]  # of tests/conftest.py
atexit.register(lambda: print("handled", os.environ["OMP_WAIT_POLICY"]))
sys.argv[1:] = [sys.argv[1]]
main()
"""
    for argument, code in (("--help", 0), ("frobnicate", 2)):
        result = python("-c", program, argument)
        assert result.returncode == code and result.stdout.endswith("handled passive\n")


@pytest.mark.slow
def test_what_answers_at_once_imports_no_torch():
    program = """
import sys
from swarm_node.commands.table import COMMANDS, load
for entry in COMMANDS.values():
    load(entry)
print(*sorted({"torch", "transformers", "ortools"} & set(sys.modules)))
"""
    result = python("-c", program)
    assert (result.returncode, result.stdout.strip()) == (0, "")


def test_a_terminal_that_knows_only_ascii_gets_the_line_too(tmp_path):
    result = ended(
        "run", "--model.name", tmp_path / "né", env={**os.environ, "PYTHONIOENCODING": "ascii"}
    )
    assert_one_line(result, "n?", "does not exist")


@pytest.mark.slow
def test_an_identity_is_made_once_and_private(tmp_path):
    home = tmp_path / "home"
    first = ended("home", "id", env=home_at(home))
    assert first.stdout.startswith("12D3KooW") and f"made {home / 'identity.key'}" in first.stderr
    assert (home / "identity.key").stat().st_mode & 0o777 == 0o600
    again = ended("home", "id", env=home_at(home))
    assert (again.stdout, again.stderr) == (first.stdout, "")


@pytest.mark.slow
def test_check_shows_what_differs_where_it_comes_from_and_what_it_comes_to(tmp_path):
    file = tmp_path / "c.toml"
    file.write_text('[model]\nname = "dense"\n[training]\nlearning_rate = 3e-4\n')
    others = {
        name: value for name, value in os.environ.items() if not name.startswith("SWARM_NODE_")
    }
    env = {**others, "COLUMNS": "80", "SWARM_NODE_SEED": "3"}
    result = ended_well("check", file, "--environment.tasks", "gcd/tiny,lcm/tiny", env=env)
    shown, _, comes_to = result.stdout.partition("every option: --all")
    assert [line for line in shown.splitlines() if " = " in line] == [
        "model.name = dense  (file)",
        "environment.tasks = gcd/tiny, lcm/tiny  (flag)",
        "seed = 3  (environment)",
    ]
    assert (
        "    Seed of every random choice.\n" in shown
        and max(map(len, shown.splitlines()[1:])) <= 80
    )
    assert "parameters" in comes_to


@pytest.mark.slow
def test_check_shows_every_option_where_asked():
    result = ended_well("check", "--all", "--max-rounds", "3")
    keys = [
        line.split(" = ")[0]
        for line in result.stdout.splitlines()
        if re.match(r"[a-z_.0-9]+ = ", line)
    ]
    assert keys == list(flatten(NodeConfig().model_dump()))
    assert "max_rounds = 3  (flag)" in result.stdout and "seed = 0  (default)" in result.stdout


@pytest.mark.slow
def test_eval_gives_accuracy_with_an_interval_per_task():
    result = ended_well(
        "model", "eval", "dense", "--tasks", "gcd/tiny", "lcm/tiny", "--questions", "20", "--json"
    )
    report = json.loads(result.stdout.splitlines()[-1])
    assert [row["task"] for row in report["tasks"]] == ["gcd/tiny", "lcm/tiny"]
    for row in [*report["tasks"], report["all"]]:
        assert 0.0 <= row["low"] <= row["accuracy"] <= row["high"] <= 1.0
    assert report["all"]["questions"] == 40
    assert (
        "gcd/tiny"
        in ended("model", "eval", "dense", "--tasks", "gcd/tiny", "--questions", "5").stdout
    )


def test_a_place_of_code_is_no_command():
    with pytest.raises(UserError, match="unknown command 'os:system'"):
        dispatch(["os:system", "true"])


@pytest.mark.slow
def test_a_command_is_found_and_the_list_is_shown_without_asking_for_entry_points():
    """Asking for entry points would cost every start 0.1 s."""
    program = """
import sys
from swarm_node.commands.cli import dispatch
from swarm_node.commands.table import COMMANDS, find
assert all(find(name.split())[0] == name for name in COMMANDS)
dispatch(["--help"])
sys.exit("importlib.metadata" in sys.modules)
"""
    assert python("-c", program).returncode == 0


def test_torch_may_grow_its_memory_of_a_card_unless_the_user_says_otherwise(monkeypatch) -> None:
    for name in cli.ALLOCATOR:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(release="6.1.0-amd64"))
    cli.settle_allocator()
    assert os.environ.pop("PYTORCH_ALLOC_CONF") == "expandable_segments:True"
    for name in cli.ALLOCATOR:
        with monkeypatch.context() as own:
            own.setenv(name, "max_split_size_mb:128")
            cli.settle_allocator()
            assert {key for key in cli.ALLOCATOR if key in os.environ} == {name}
            assert os.environ[name] == "max_split_size_mb:128"
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(release="5.15-microsoft-standard"))
    cli.settle_allocator()
    assert "PYTORCH_ALLOC_CONF" not in os.environ
