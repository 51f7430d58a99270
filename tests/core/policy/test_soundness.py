"""A node finds a damaged checkpoint before it trains on it."""

import json
import os

import pytest
import torch

from swarm_node.common.errors import UserError
from swarm_node.policy import soundness
from swarm_node.policy.loading import load_policy
from swarm_node.policy.soundness import Damaged
from swarm_node.settings import ModelConfig

PARAMETERS = [torch.nn.Parameter(torch.zeros(3, 4)), torch.nn.Parameter(torch.zeros(5))]


def optimiser(**changes: torch.Tensor | None) -> dict[str, torch.Tensor]:
    """The state of Adam, as a checkpoint has it. A change to None takes the tensor out."""
    whole: dict[str, torch.Tensor | None] = {}
    for index, parameter in enumerate(PARAMETERS):
        whole |= {f"{index}.step": torch.tensor(7.0)}
        whole |= {
            f"{index}.{name}": torch.zeros_like(parameter.data)
            for name in ("exp_avg", "exp_avg_sq")
        }
    whole |= {name.replace("_at_", "."): tensor for name, tensor in changes.items()}
    return {
        name.removeprefix("of_"): tensor for name, tensor in whole.items() if tensor is not None
    }


def test_what_fits_is_taken():
    soundness.check_optimizer(optimiser(), PARAMETERS)
    soundness.check_optimizer({}, PARAMETERS)


@pytest.mark.parametrize(
    "tensors",
    [
        {**optimiser(), "0.exp_avg": torch.zeros(3, 3)},
        {**optimiser(), "0.exp_avg": torch.zeros(6, 4)},
        {**optimiser(), "1.exp_avg_sq": torch.full((5,), float("nan"))},
        {**optimiser(), "2.exp_avg": torch.zeros(5)}, {**optimiser(), "exp_avg": torch.zeros(5)},
        {name: tensor for name, tensor in optimiser().items() if name != "1.exp_avg"},
    ],
    ids=["smaller", "larger", "nan", "no such weight", "no number", "one missing"],
)  # fmt: skip
def test_what_does_not_fit_is_damaged(tensors):
    with pytest.raises(Damaged):
        soundness.check_optimizer(tensors, PARAMETERS)


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), float("-inf")])
def test_weights_that_are_not_finite_are_damaged(wrong):
    model = torch.nn.Linear(2, 2)
    soundness.check_finite(model)
    model.bias.data[1] = wrong
    with pytest.raises(Damaged, match="bias"):
        soundness.check_finite(model)


GOOD = {"format": 1, "rounds": 3, "optimizer_steps": 3, "version": 3, "extra": {}}


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "null", "{", json.dumps({**GOOD, "rounds": "many"}),
        json.dumps({**GOOD, "rounds": -1}), json.dumps({**GOOD, "rounds": 3.5}),
        json.dumps({**GOOD, "extra": 7}),
        json.dumps({key: value for key, value in GOOD.items() if key != "optimizer_steps"}),
        json.dumps(GOOD).replace("3", "9" * 5000, 1), "[" * 100_000,
    ],
    ids=range(11),
)  # fmt: skip
def test_a_malformed_state_is_damaged_and_said_in_one_line(text, tmp_path):
    (tmp_path / "state.json").write_text(text)
    with pytest.raises(Damaged) as caught:
        soundness.read_state(tmp_path / "state.json")
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 200


def test_a_state_is_read_and_a_pipe_is_not_waited_for(tmp_path):
    (tmp_path / "state.json").write_text(json.dumps(GOOD))
    assert soundness.read_state(tmp_path / "state.json")["rounds"] == 3
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(Damaged, match="not a plain file"):
        soundness.read_state(tmp_path / "pipe")
    with pytest.raises(Damaged, match="pipe"):
        soundness.check_plain(tmp_path)


def test_adapters_that_would_be_unpickled_are_damaged(tmp_path):
    soundness.check_adapters(tmp_path)  # a model without adapters
    (tmp_path / "adapter_config.json").write_text("{}")
    torch.save({}, tmp_path / "adapter_model.bin")
    with pytest.raises(Damaged, match="safetensors"):
        soundness.check_adapters(tmp_path)
    for resume in (None, tmp_path):
        config = ModelConfig(name=str(tmp_path), lora_rank=4 if resume else 0)
        with pytest.raises((Damaged, UserError), match="safetensors"):
            load_policy(config, resume)
    (tmp_path / "adapter_model.safetensors").touch()
    soundness.check_adapters(tmp_path)
