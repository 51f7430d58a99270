"""What a user gets wrong costs one line: which option, what it must be, what was meant. Nothing is started for it."""

import pytest

from swarm_node.commands.cli import dispatch
from swarm_node.common.errors import UserError

WRONG = [
    ("run --training.learning-rate -1", "--training.learning-rate: must be greater than 0, not -1"),
    ("run --training.learning-rate inf", "--training.learning-rate: must be a finite number"),
    ("run --training.learning-rate fast", "--training.learning-rate: must be a valid number, not 'fast'"),
    ("run --training.learning-rate", "--training.learning-rate needs a value"),
    ("run --network.port 99999", "--network.port: must be less than or equal to 65535, not 99999"),
    ("run --swarm a@b", "--swarm: must be 1 to 64 letters, digits"),
    ("run --model.dtype float33", "--model.dtype: must be 'auto', 'float32'"),
    ("run --training.adam-betas 1", "--training.adam-betas: must have more entries"),
    ("run --limits.hours 25-7", "--limits.hours: must be hours from 0 to 24"),
    ("run --peers", "--peers needs a value"),
    ("run --peers --seed 1", "--peers needs a value"),
    ("run --network.mdns --network.no-mdns", "given twice"),
    ("run --network.mdns=maybe", "takes true or false"),
    ("run --bogus", "see swarm-node run --help-all"),
    ("run --seed 1 --seed 2", "--seed is given twice"),
    ("run --learning-rate 1", "did you mean --training.learning-rate?"),
    ("run --modell x", "did you mean --model.name?"),
    ("run --network.announce z", "--network.announce: 'z' is no multiaddr"),
    ("run --home /etc/passwd", "/etc/passwd is a file: choose another --home"),
    ("run --model.name ./none", "model folder './none' does not exist"),
    ("bootstrap --peers banana", "--peers: 'banana' is no multiaddr"),
    ("bootstrap --network.host x", "--network.host: 'x' is not an IP address"),
    ("bootstrap a.toml", "'a.toml' is no flag of swarm-node bootstrap"),
    ("check --model.x 3", "did you mean --model.name?"),
    ("check none.toml --seed 3", "config file none.toml does not exist"),
    ("status somewhere", "'somewhere' is no flag of swarm-node status"),
    ("model eval --home /none", "/none holds no checkpoint yet; name a model"),
    ("pause --home /none", "home /none does not exist"),
    ("home backup", "swarm-node home backup FILE"),
    ("restore /none --home /proc/none", "swarm-node"),
]


@pytest.mark.parametrize(("words", "said"), WRONG, ids=[words for words, _ in WRONG])
def test_a_mistake_is_one_line(words, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SWARM_NODE_MODEL__NAME")  # of all tests; `model eval` without a name is another case
    with pytest.raises(UserError) as caught:
        dispatch(words.split())
    line = f"swarm-node: {caught.value}"
    assert said in line
    assert "\n" not in line and len(line) < 300 and "pydantic" not in line


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("SWARM_NODE_TRAINING__LEARNING_RAT", "1", "did you mean SWARM_NODE_TRAINING__LEARNING_RATE?"),
        ("SWARM_NODE_TRAINING__LEARNING_RATE", "fast", "SWARM_NODE_TRAINING__LEARNING_RATE: must be a valid number"),
        ("SWARM_NODE_SEED", "-1", "SWARM_NODE_SEED: must be greater than or equal to 0"),
        ("SWARM_NODE_NETWORK__PORT", "x", "SWARM_NODE_NETWORK__PORT: must be a valid integer"),
    ],
)
def test_a_variable_is_named_as_it_is_written(name, value, said, monkeypatch):
    monkeypatch.setenv(name, value)
    with pytest.raises(UserError) as caught:
        dispatch(["run"])
    assert said in str(caught.value)


@pytest.mark.parametrize("name", ["SWARM_NODE_SERVICE_HOST", "SWARM_NODE_PORT_31330_TCP_ADDR", "SWARM_NODE_PORT"])
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
    [
        ('modell = "x"', "did you mean 'model.name'?"),
        ("[trainig]", "unknown key 'trainig'"),
        ("seed = " + "9" * 5000, "is not TOML: Exceeds the limit"),
        ("a = " + "[" * 5000, "too many brackets"),
        ("seed = ", "is not TOML"),
        ("network = 3", "network: must be a"),
        ("[training]\nlearning_rat = 1\n", "did you mean 'training.learning_rate'?"),
        ("[generation]\nmax_lenght = 1\n", "did you mean 'generation.max_completion_length'?"),
        ("[generation]\ntemperature = 0.0", "generation.temperature: must be"),
        ("[training]\nloss_type='x'", "training.loss_type: must be"),
        ("[training]\nlearning_rate = 'x'", "training.learning_rate: must be a valid number"),
    ],
)
def test_a_key_of_a_file_is_named_with_its_file(text, said, tmp_path):
    file = tmp_path / "c.toml"
    file.write_text(text)
    with pytest.raises(UserError) as caught:
        dispatch(["run", str(file)])
    assert said in str(caught.value) and "c.toml" in str(caught.value)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 400
