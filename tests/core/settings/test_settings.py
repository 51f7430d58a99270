"""Defaults < file < environment < flags, and the messages for mistakes."""

from pathlib import Path

import pytest

from swarm_node.common.errors import UserError
from swarm_node.settings import NodeConfig
from swarm_node.settings.command_line import from_command_line
from tests.commands import resolve


def written(folder: Path, text: str) -> Path:
    file = folder / "config.toml"
    file.write_text(text)
    return file


def test_each_source_goes_over_the_one_before(tmp_path, monkeypatch):
    file = written(
        tmp_path,
        "seed = 1\nmax_rounds = 1\n[training]\nlearning_rate = 1e-5\n[round]\nquestions = 3\n",
    )
    monkeypatch.setenv("SWARM_NODE_MAX_ROUNDS", "2")
    monkeypatch.setenv("SWARM_NODE_TRAINING__LEARNING_RATE", "1e-4")
    config = from_command_line(
        NodeConfig, [str(file), "--training.learning-rate", "1e-3"], "swarm-node run"
    )
    assert (config.seed, config.max_rounds, config.round.questions) == (1, 2, 3)
    assert config.training.learning_rate == 1e-3


TWO = ("gcd/tiny", "lcm/tiny")


@pytest.mark.parametrize(
    "text", ['"gcd/tiny,lcm/tiny"', '"gcd/tiny lcm/tiny"', '["gcd/tiny", "lcm/tiny"]']
)
def test_a_list_in_a_file_or_a_variable_is_by_comma_or_space_alike(tmp_path, text):
    for given in (text, text.strip('"'), text.strip('"').replace(",", ", ")):
        assert (
            resolve(NodeConfig, None, {"SWARM_NODE_ENVIRONMENT__TASKS": given}).environment.tasks
            == TWO
        )
    assert (
        resolve(
            NodeConfig, written(tmp_path, f"[environment]\ntasks = {text}\n"), {}
        ).environment.tasks
        == TWO
    )


@pytest.mark.parametrize("words", [("gcd/tiny,lcm/tiny",), TWO, ("gcd/tiny,", "lcm/tiny")])
def test_a_list_on_the_command_line_is_by_comma_or_space_alike(words):
    others = ["--defence", "length,ngrams", "--training.adam-betas", "0.8,0.9"]
    config = from_command_line(
        NodeConfig, ["--environment.tasks", *words, *others], "swarm-node run"
    )
    assert config.environment.tasks == TWO and config.defence.layers == ("length", "ngrams")
    assert config.training.adam_betas == (0.8, 0.9)


def test_variables_of_others_are_left_alone():
    assert resolve(NodeConfig, None, {"SWARM_NODE_IMAGE": "x", "PATH": "/bin"}) == NodeConfig()


def test_a_mistake_under_an_earlier_name_is_told_under_the_name_that_the_user_wrote(tmp_path):
    file = written(tmp_path, '[card]\nnetwork = "friends"\n')
    for given, environment, name in (
        (file, {}, f"{file}: card.network"),
        (None, {"SWARM_NODE_CARD__NETWORK": "friends"}, "SWARM_NODE_CARD__NETWORK"),
    ):
        with pytest.raises(UserError) as caught:
            resolve(NodeConfig, given, environment)
        assert str(caught.value).startswith(f"{name}: should match pattern")
