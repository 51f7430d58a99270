"""A mistake in what a script or a notebook writes is one line, as on the command line."""

import pickle

import pytest

import swarm_node
from swarm_node.settings import NodeConfig
from swarm_node.settings.command_line import from_command_line


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"modle": "rare"}, "NodeConfig has no option 'modle'; did you mean 'model'?"),
        ({"model": {"nmae": "rare"}}, "model has no option 'nmae'; did you mean 'name'?"),
        ({"peers": "x"}, "NodeConfig has no option 'peers'; did you mean 'network.peers'?"),
        ({"qwertz": 1}, "NodeConfig has no option 'qwertz'; see docs/reference/options.md"),
        ({"seed": "many"}, "seed: must be a valid integer"),
        ({"training": {"learning_rate": -1}}, "training.learning_rate: must be greater than 0"),
        ({"environment": 3}, "environment: must be a section, with keys of its own"),
    ],
)
def test_a_wrong_option_is_one_line_with_the_nearest_name(options, said) -> None:
    with pytest.raises(swarm_node.UserError) as caught:
        swarm_node.NodeConfig(**options)
    line = str(caught.value)
    assert said in line and "\n" not in line and "pydantic" not in line
    # As before, a script may catch what pydantic raised
    assert isinstance(caught.value, ValueError) and caught.value.__cause__ is None


def test_a_configuration_of_a_script_is_one_like_all_others() -> None:
    config = swarm_node.NodeConfig(home="x", seed=3)
    assert isinstance(config, NodeConfig) and swarm_node.NodeConfig is swarm_node.NodeConfig
    assert type(config) is type(config)
    assert config.model_fields_set == {"home", "seed"}
    again = pickle.loads(pickle.dumps(config))
    assert again == config and type(again) is type(config)
    assert swarm_node.NodeConfig.__name__ == "NodeConfig"


@pytest.mark.parametrize("name", ["join", "run"])
def test_what_is_no_configuration_is_told_in_a_line(name) -> None:
    with pytest.raises(swarm_node.UserError, match=r"give a NodeConfig, .* not int"):
        getattr(swarm_node, name)(3)
    with pytest.raises(swarm_node.UserError, match="unknown key 'modle'"):
        getattr(swarm_node, name)(modle="rare")


def test_a_home_that_nobody_named_is_told(monkeypatch, tmp_path, capsys) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    small = {"network": {"enabled": False}, "environment": {"tasks": ["second/few"]}}
    swarm_node.join(**small).close()
    assert f"makes a home in {tmp_path / '.swarm-node'}" in capsys.readouterr().err
    swarm_node.join(**small).close()  # it is there now
    swarm_node.join(home=tmp_path / "mine", **small).close()
    assert capsys.readouterr().err == ""


def test_a_file_with_a_byte_order_mark_is_toml(tmp_path) -> None:
    file = tmp_path / "windows.toml"
    file.write_bytes("\ufeffseed = 7\r\n".encode())
    assert from_command_line(NodeConfig, [str(file)], "swarm-node run").seed == 7
