"""A resting node gives the memory of its card back. Here moves are noted and not made, since torch
moves a tensor in place between a card and the host alone: tests/gpu/test_cuda.py does so.
"""

import pytest
import torch

from swarm_node.common.errors import UserError
from swarm_node.node.learner import set_aside
from swarm_node.policy import aside
from swarm_node.policy.aside import Aside, state_of, tensors_of
from swarm_node.policy.device import OutOfMemory
from swarm_node.settings import NodeConfig
from tests.models import LESSON, make_node, tiny_model, trainer_of


class Moves:
    """Stands in for `put`: a CPU has no other device, so it notes what would move."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, fails: int = 0) -> None:
        self.made: list[tuple[int, str]] = []
        self._fails = fails  # moves to the card that fail
        monkeypatch.setattr(aside, "put", self)
        # What is on the host counts as on a card, and the other way round
        monkeypatch.setattr(aside, "HOST", torch.device("meta"))

    def __call__(self, tensor: torch.Tensor, device: torch.device) -> None:
        self.made.append((id(tensor), device.type))
        if device.type == "cpu" and self._fails:
            self._fails -= 1
            raise OutOfMemory("no room")


def test_all_that_training_holds_leaves_and_comes_back_to_where_it_was(monkeypatch) -> None:
    node = make_node()
    trainer_of(node).update([LESSON])
    held = [id(tensor) for tensor in trainer_of(node).held()]
    parameters = len(list(trainer_of(node).policy.model.parameters()))
    # Two moments and a count for each parameter
    assert len(held) == len(set(held)) >= 3 * parameters
    moves, forgotten = Moves(monkeypatch), list[str]()
    away = Aside(trainer_of(node).held, lambda: forgotten.append("decoder"))
    away.leave()
    assert moves.made == [(name, "meta") for name in held] and forgotten == ["decoder"]
    assert away.come_back()
    assert moves.made[len(held) :] == [(name, "cpu") for name in held]
    assert away.come_back() and len(moves.made) == 2 * len(held)


def test_without_room_on_the_card_all_waits_on_the_host_and_is_tried_again(monkeypatch) -> None:
    model = tiny_model()
    moves = Moves(monkeypatch, fails=1)
    away = Aside(lambda: tensors_of(model))
    away.leave()
    count = len(moves.made)
    assert not away.come_back()
    assert {where for _, where in moves.made[count + 1 :]} == {"meta"}
    assert len(moves.made) == 2 * count + 1
    assert away.come_back()


def test_a_gradient_moves_with_its_weight_and_a_tied_weight_once() -> None:
    model = tiny_model("Qwen2")
    model(input_ids=torch.tensor([[5, 6]])).logits.sum().backward()
    gradients = sum(parameter.grad is not None for parameter in model.parameters())
    buffers = len(list(model.buffers()))
    expected = len(list(model.parameters())) + gradients + buffers
    assert gradients and len(list(tensors_of(model))) == expected


def test_numbers_and_the_optimisers_hold_on_a_weight_survive_a_move() -> None:
    layer = torch.nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(layer.parameters(), lr=0.1)
    layer(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    before = [tensor.clone() for tensor in (*tensors_of(layer), *state_of(optimizer))]
    for tensor in (*tensors_of(layer), *state_of(optimizer)):
        aside.put(tensor, torch.device("cpu"))
    after = [*tensors_of(layer), *state_of(optimizer)]
    assert all(map(torch.equal, before, after))
    assert optimizer.param_groups[0]["params"][0] is layer.weight
    optimizer.step()
    assert not torch.equal(layer.weight, before[0])


def test_on_a_cpu_there_is_no_memory_of_a_card_to_give_back() -> None:
    config = NodeConfig.model_validate({"limits": {"rest": "free"}})
    node = make_node()
    assert set_aside(config, node, trainer_of(node).policy) is None


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"asynchronous": {"enabled": True}}, "--asynchronous.enabled"),
        ({"model": {"quantization": "nf4", "lora_rank": 8}}, "--model.quantization nf4"),
        ({"fp8": {"precision": "fp8"}}, "--fp8.precision fp8"),
        ({"vllm": {"url": "auto"}}, "--vllm.url"),
    ],
)
def test_what_cannot_be_moved_is_named_before_the_first_round(options, named) -> None:
    config = NodeConfig.model_validate({"limits": {"rest": "free"}, **options})
    node = make_node()
    policy = trainer_of(node).policy
    policy.device = torch.device("meta")
    with pytest.raises(UserError, match=named):
        set_aside(config, node, policy)
