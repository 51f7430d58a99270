"""A mistake of the user ends with the right exit code and one line, which says what was meant."""

import sys

import pytest

from swarm_node.commands.cli import dispatch
from swarm_node.common.errors import UserError
from tests import mistakes
from tests.mistakes import Mistake, Trials, faults, started


class TestList(Trials):
    name = "core"


RIGHT = Mistake(2, "swarm-node runn", "did you mean run?")


@pytest.mark.parametrize(
    ("planted", "fault"),
    [
        ("import nothing", "a traceback"),
        ("import os; os.kill(os.getpid(), 11)", "exit code -11"),
        ("", "exit code 0"),
    ],
)
def test_a_planted_traceback_and_a_planted_crash_are_found(
    planted, fault, tmp_path, monkeypatch
) -> None:
    assert faults([RIGHT], started, tmp_path / "right") == []
    program = tmp_path / "swarm-node"
    program.write_text(f"#!{sys.executable}\n{planted}\n")
    program.chmod(0o755)
    monkeypatch.setattr(mistakes.sys, "executable", str(program))
    (found,) = faults([RIGHT], started, tmp_path)
    assert found.startswith("swarm-node runn: ") and fault in found


@pytest.mark.parametrize(
    "name", ["SWARM_NODE_SERVICE_HOST", "SWARM_NODE_PORT_31330_TCP_ADDR", "SWARM_NODE_PORT"]
)
def test_what_kubernetes_sets_is_a_warning(name, monkeypatch, capsys):
    monkeypatch.setenv(name, "tcp://10.0.0.1:31330")
    for command in ("run", "bootstrap"):
        with pytest.raises(UserError, match="needs a value"):
            dispatch([command, "--peers"])
        with pytest.raises(UserError, match="banana"):
            dispatch([command, "--peers", "banana"])
    assert f"warning: {name}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "said"),
    [("seed = " + "9" * 5000, "Exceeds the limit"), ("a = " + "[" * 5000, "too many")],
)
def test_a_file_that_would_stop_a_parser_is_one_line(text, said, tmp_path):
    (tmp_path / "c.toml").write_text(text)
    with pytest.raises(UserError, match=said) as caught:
        dispatch(["run", str(tmp_path / "c.toml")])
    assert (
        "c.toml" in str(caught.value)
        and "\n" not in str(caught.value)
        and len(str(caught.value)) < 400
    )
