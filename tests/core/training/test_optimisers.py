"""8-bit AdamW where it is installed, and weights in bfloat16 that lose no small step."""

import sys
from importlib.util import find_spec

import pytest
import torch
from torch import nn

from swarm_node.common.errors import UserError
from swarm_node.settings import GenerationConfig, TrainingConfig
from swarm_node.training import checkpoint
from swarm_node.training.optimisers import build_optimizer, rounded_by_chance, take_step
from swarm_node.training.trainer import GrpoTrainer
from tests.models import LESSON, tiny_policy, weights_of

KINDS = ["adamw"] + (["adamw_8bit"] if find_spec("bitsandbytes") else [])
SMALL = 1e-5  # less than half of what separates two bfloat16 numbers near 1


def mean_step(kind: str, dtype: torch.dtype, steps: int = 50) -> float:
    """Mean movement of weights against a gradient that stays the same."""
    torch.manual_seed(0)
    weight = nn.Parameter(torch.randn(64, 512).bfloat16().to(dtype))
    start, gradient = weight.detach().float().clone(), torch.randn(64, 512)
    optimizer = build_optimizer([weight], TrainingConfig(learning_rate=SMALL, optimizer=kind))
    for number in range(steps):
        weight.grad = gradient.to(dtype)
        take_step(optimizer, number)
        assert weight.grad is not None
    assert weight.dtype == dtype
    return float((start - weight.detach().float()).mul(gradient.sign()).mean())


def test_a_step_of_pieces_gives_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    adamw = pytest.importorskip("bitsandbytes.optim").AdamW8bit

    from swarm_node.training import eight_bits

    monkeypatch.setattr(eight_bits, "PIECE", 4 * eight_bits.BLOCK)
    torch.manual_seed(0)
    whole = nn.Parameter(torch.randn(130, 77))  # no whole number of pieces, nor of blocks
    pieces = nn.Parameter(whole.detach().clone())
    config = TrainingConfig(learning_rate=1e-2, optimizer="adamw_8bit")
    ours = build_optimizer([pieces], config)
    theirs = adamw([whole], lr=1e-2, betas=config.adam_betas, weight_decay=config.weight_decay)
    for _ in range(5):
        whole.grad = torch.randn_like(whole)
        pieces.grad = whole.grad.clone()
        theirs.step()
        ours.step()
    assert torch.equal(whole, pieces) and list(ours.state) == [pieces]
    for name, value in theirs.state[whole].items():
        mine = ours.state[pieces][name]
        assert torch.equal(value, mine) if isinstance(value, torch.Tensor) else value == mine


@pytest.mark.parametrize("kind", KINDS)
def test_small_steps_of_bfloat16_weights_add_up(kind) -> None:
    assert mean_step(kind, torch.bfloat16) == pytest.approx(50 * SMALL, rel=0.1)
    assert mean_step(kind, torch.float32) == pytest.approx(50 * SMALL, rel=0.05)


def test_rounding_by_chance_is_right_in_the_mean_and_leaves_what_is_exact() -> None:
    generator = torch.Generator().manual_seed(0)
    between = torch.full((100_000,), 1 + 2**-9)  # a fourth of the way from 1 to the next bfloat16
    assert float(rounded_by_chance(between, generator).float().mean()) == pytest.approx(
        1 + 2**-9, abs=1e-4
    )
    exact = torch.randn(1000).bfloat16()
    assert torch.equal(rounded_by_chance(exact.float(), generator), exact)


def test_without_the_extra_a_line_says_what_to_install(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "bitsandbytes", None)  # as where it is not installed
    monkeypatch.setitem(sys.modules, "bitsandbytes.optim", None)
    monkeypatch.delitem(sys.modules, "swarm_node.training.eight_bits", raising=False)
    with pytest.raises(UserError, match=r"textswarm\[memory\]"):
        build_optimizer([nn.Parameter(torch.zeros(2))], TrainingConfig(optimizer="adamw_8bit"))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_a_resumed_run_takes_the_very_same_step(kind, dtype, tmp_path) -> None:
    def made(policy) -> GrpoTrainer:
        return GrpoTrainer(
            policy, TrainingConfig(learning_rate=1e-3, optimizer=kind), GenerationConfig()
        )

    policy = tiny_policy()
    policy.model.to(dtype)
    trainer = made(policy)
    trainer.update([LESSON])
    kept = checkpoint.save(tmp_path / "checkpoints", 1, policy, trainer, {}, 1)
    again = tiny_policy(seed=1)
    again.model.to(dtype).load_state_dict(policy.model.state_dict())
    resumed = made(again)
    checkpoint.restore_trainer(kept, resumed)
    for one in (trainer, resumed):
        one.update([LESSON])
    assert all(map(torch.equal, weights_of(policy.model), weights_of(again.model)))
