"""AdamW, in 32 or in 8 bits, for weights in float32 and in bfloat16.

A step of 1e-5 is less than half of what separates two bfloat16 numbers, and rounding to the nearest
would lose it. Weights in bfloat16 are stepped in float32, one parameter at a time, and rounded up
or down by chance, so that the mean over many steps is right. No second copy of the weights is kept.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from swarm_node.common.errors import UserError
from swarm_node.settings import TrainingConfig


def build_optimizer(
    parameters: Sequence[nn.Parameter], config: TrainingConfig
) -> torch.optim.Optimizer:
    """The configured optimiser. UserError if its library is not installed."""
    how: dict[str, Any] = {
        "lr": config.learning_rate,
        "betas": config.adam_betas,
        "weight_decay": config.weight_decay,
    }
    if config.optimizer != "adamw_8bit":
        return torch.optim.AdamW(parameters, fused=True, **how)
    try:
        from swarm_node.training.eight_bits import PiecewiseAdamW8bit  # now: an extra
    except ImportError as error:
        raise UserError(
            "--training.optimizer adamw_8bit needs bitsandbytes: pip install 'textswarm[memory]', "
            "or take another optimizer"
        ) from error
    made: torch.optim.Optimizer = PiecewiseAdamW8bit(parameters, **how)
    return made


def take_step(optimizer: torch.optim.Optimizer, number: int) -> None:
    """Takes the step with this number, which seeds its random stream."""
    coarse = [
        p for group in optimizer.param_groups for p in group["params"] if p.dtype == torch.bfloat16
    ]
    if not coarse:
        optimizer.step()
        return
    generator = torch.Generator(coarse[0].device).manual_seed(number)
    gradients = {p: p.grad for p in coarse if p.grad is not None}
    for p in coarse:
        p.grad = None
    optimizer.step()  # of what is in float32
    fine = {
        p: p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None
    }
    optimizer.zero_grad(set_to_none=True)
    for p, gradient in gradients.items():
        kept = p.data
        try:
            p.data, p.grad = kept.float(), gradient.float()
            optimizer.step()
            kept.copy_(rounded_by_chance(p.data, generator))
        finally:
            p.grad, p.data = None, kept
    for p, gradient in (gradients | fine).items():
        p.grad = gradient


def state_tensors(
    optimizer: torch.optim.Optimizer, parameters: Sequence[nn.Parameter]
) -> dict[str, Tensor]:
    """The optimiser's state by "INDEX.NAME", in memory of the host; INDEX is that of `parameters`.
    A tensor that weights share, such as a table of AdamW in 8 bits, is copied for each: safetensors
    takes no overlaps.
    """
    tensors: dict[str, Tensor] = {}
    places: set[int] = set()
    for index, parameter in enumerate(parameters):
        for name, value in optimizer.state.get(parameter, {}).items():
            tensor = torch.as_tensor(value).detach().cpu().contiguous()
            tensors[f"{index}.{name}"] = tensor.clone() if tensor.data_ptr() in places else tensor
            places.add(tensor.data_ptr())
    return tensors


def rounded_by_chance(x: Tensor, generator: torch.Generator) -> Tensor:
    """float32 as bfloat16, up or down with the probability that makes the mean right."""
    bits = x.view(torch.int32)
    noise = torch.randint(
        0, 1 << 16, x.shape, dtype=torch.int32, device=x.device, generator=generator
    )
    return ((bits + noise) & -(1 << 16)).view(torch.float32).to(torch.bfloat16)
