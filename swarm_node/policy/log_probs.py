"""The one definition of the policy's distribution, for sampling and for training, and log-probs
under it in chunks.

Temperature changes what is sampled. A log-prob that ignores it belongs to another policy, and the
probability ratio means nothing. Tokens are drawn from the whole vocabulary: neither top-k nor top-p
cuts it off.

With a vocabulary of 150,000 the logits of a micro-batch are larger than the model. So
`projected_log_probs` projects the hidden states of a few tokens at a time, turns each row of logits
into a log-prob and an entropy, drops it, and computes it again in `backward`, unless the head is
frozen. The log-prob of a token taken has the gradient (one-hot - probabilities) / temperature.
Fused kernels (Liger's, TRL's) do not give the entropy, and need a GPU or Triton.

Logits are float32 even where products are bfloat16. A logit of 16 has steps of 0.06 to 0.12 there,
which is more than an update changes a log-prob by.

Suffixes of tensors: see policy/batch.py.
"""

from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from swarm_node.policy.products import times

CHUNK_BYTES = 2**27  # of a chunk's logits in float32
# Where the head is not trained: no chunk then reads and writes a gradient as large as the head
FROZEN_BYTES = 2**25


def log_distribution(logits: Tensor, temperature: float) -> Tensor:
    """Log-probabilities [..., vocabulary] (float32) of the distribution that tokens are sampled
    from. `logits` have the same shape and any float type.
    """
    scaled = logits.float()
    return torch.log_softmax(scaled if temperature == 1.0 else scaled / temperature, dim=-1)


def wide_linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """x W^T + b [tokens, out] in float32, for x and W that may have 16 bits. A device that does not
    put out other types than it reads rounds the result.
    """
    if weight.dtype == torch.float32 or weight.device.type == "cpu":
        product = times(x.float(), weight.float())
    elif multiplies_wide(weight.device, weight.dtype):
        product = torch.mm(x.to(weight.dtype), weight.T, out_dtype=torch.float32)
    else:
        product = F.linear(x.to(weight.dtype), weight).float()
    return product if bias is None else product.add_(bias)


@cache
def multiplies_wide(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether this device gives products of this type in float32, found out by trying: torch can do
    it with CUDA since version 2.8.
    """
    some = torch.ones(16, 16, dtype=dtype, device=device)
    try:
        return bool(torch.mm(some, some, out_dtype=torch.float32).dtype == torch.float32)
    except (RuntimeError, TypeError):  # NotImplementedError is a RuntimeError
        return False


def log_probs_of(logits: Tensor, ids: Tensor, temperature: float) -> Tensor:
    """Log-prob of each of `ids` [...] under `logits` [..., vocabulary]."""
    return log_distribution(logits, temperature).gather(-1, ids.unsqueeze(-1)).squeeze(-1)


def chunk_rows(vocabulary: int, *, frozen: bool = False) -> int:
    """Rows of a chunk."""
    return max(1, (FROZEN_BYTES if frozen else CHUNK_BYTES) // (4 * vocabulary))


def is_large(tokens: int, vocabulary: int, hidden: int, *, frozen: bool = False) -> bool:
    """Whether the logits of so many tokens, or the head's own gradient, take more than one chunk.
    The direct way is faster for less, but holds a second gradient of the head, if not `frozen`, and
    a third where it is the embedding.
    """
    chunk = chunk_rows(vocabulary, frozen=frozen)
    return (tokens if frozen else max(tokens, hidden)) > chunk


def projected_log_probs(
    hidden_TD: Tensor, head: nn.Linear, taken_T: Tensor, temperature: float
) -> tuple[Tensor, Tensor]:
    """Log-prob [T] of each token taken, and the entropy [T] of the distribution it was taken from,
    without gradient.

    Args:
        hidden_TD: the input of the output head.
        taken_T: ids.
    """
    rows = chunk_rows(head.weight.shape[0], frozen=not head.weight.requires_grad)
    found = _Projected.apply(hidden_TD, head.weight, head.bias, taken_T, temperature, rows)  # type: ignore[no-untyped-call]
    log_probs_T, entropies_T = found
    return log_probs_T, entropies_T


class _Projected(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden_TD: Tensor,
        weight_VD: Tensor,
        bias_V: Tensor | None,
        taken_T: Tensor,
        temperature: float,
        rows: int,
    ) -> tuple[Tensor, Tensor]:
        kind = hidden_TD.device.type
        ctx.temperature, ctx.rows = temperature, rows
        ctx.dtype = (
            torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else hidden_TD.dtype
        )
        ctx.frozen = not any(ctx.needs_input_grad[1:3])
        of_hidden_TD = (
            torch.empty_like(hidden_TD) if ctx.frozen and ctx.needs_input_grad[0] else None
        )
        log_probs_T, entropies_T = torch.empty(
            2, len(taken_T), dtype=torch.float32, device=hidden_TD.device
        )
        with torch.autocast(kind, enabled=False):
            used = _Head(weight_VD, bias_V, ctx.dtype)
            for part in _parts(len(taken_T), rows):
                log_p_TV = log_distribution(used(hidden_TD[part]), temperature)
                log_probs_T[part] = log_p_TV.gather(-1, taken_T[part, None])[:, 0]
                # Where p is 0, log_p may be -inf
                p_TV, least = log_p_TV.exp(), torch.finfo(torch.float32).min
                entropies_T[part] = log_p_TV.clamp_min_(least).mul_(p_TV).sum(-1).neg_()
                # Without each token's factor: so `backward` needs no logits
                if of_hidden_TD is not None:
                    of_logits_TV = _of_logits(p_TV, taken_T[part]).to(ctx.dtype)
                    of_hidden_TD[part] = times(of_logits_TV, used.weight.T)
        ctx.save_for_backward(
            *((of_hidden_TD,) if ctx.frozen else (hidden_TD, weight_VD, bias_V, taken_T))
        )
        ctx.mark_non_differentiable(entropies_T)
        return log_probs_T, entropies_T

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        scale_T = gradients[0] / -ctx.temperature
        if ctx.frozen:
            (of_hidden_TD,) = ctx.saved_tensors
            return of_hidden_TD * scale_T[:, None].to(of_hidden_TD.dtype), *[None] * 5
        hidden_TD, weight_VD, bias_V, taken_T = ctx.saved_tensors
        of_hidden_TD = torch.empty_like(hidden_TD) if ctx.needs_input_grad[0] else None
        of_weight_VD = _total(weight_VD) if ctx.needs_input_grad[1] else None
        of_bias_V = (
            torch.zeros_like(bias_V, dtype=torch.float32) if ctx.needs_input_grad[2] else None
        )
        with torch.autocast(hidden_TD.device.type, enabled=False):
            used = _Head(weight_VD, bias_V, ctx.dtype)
            for part in _parts(len(taken_T), ctx.rows):
                rows = hidden_TD[part].to(ctx.dtype)
                p_TV = log_distribution(used(rows), ctx.temperature).exp_()
                of_logits_TV = (
                    _of_logits(p_TV, taken_T[part]).mul_(scale_T[part, None]).to(ctx.dtype)
                )
                if of_hidden_TD is not None:
                    of_hidden_TD[part] = times(of_logits_TV, used.weight.T)
                if of_weight_VD is not None:
                    _add_product(of_weight_VD, of_logits_TV, rows)
                if of_bias_V is not None:
                    of_bias_V += of_logits_TV.sum(0, dtype=torch.float32)
                del of_logits_TV  # before the next chunk is made
        if of_weight_VD is weight_VD.grad:
            of_weight_VD = None  # it is in `grad` already
        of_head = [None if g is None else g.to(weight_VD.dtype) for g in (of_weight_VD, of_bias_V)]
        return of_hidden_TD, *of_head, None, None, None


class _Head:
    """The output head in the type of the products."""

    def __init__(self, weight: Tensor, bias: Tensor | None, dtype: torch.dtype) -> None:
        self.weight, self.dtype = weight.to(dtype), dtype
        self.bias = None if bias is None else bias.to(dtype)

    def __call__(self, hidden: Tensor) -> Tensor:
        return wide_linear(hidden, self.weight, self.bias)


def _parts(tokens: int, rows: int) -> list[slice]:
    return [slice(first, first + rows) for first in range(0, tokens, rows)]


def _of_logits(p_TV: Tensor, taken_T: Tensor) -> Tensor:
    """The negative gradient of the scaled logits: probabilities - one-hot. Overwrites `p_TV`; the
    sign belongs to each token's factor, since a pass over the logits costs more.
    """
    return p_TV.scatter_add_(-1, taken_T[:, None], -torch.ones_like(p_TV[:, :1]))


def _total(weight: Tensor) -> Tensor:
    """The tensor in which the head's gradient is added up, in float32: the weight's `grad` if the
    weight is float32.

    Autograd would hold this gradient, as large as the embedding, until it has computed the
    embedding's own gradient.
    """
    if weight.dtype != torch.float32 or not weight.is_leaf:
        return torch.zeros_like(weight, dtype=torch.float32)
    if weight.grad is None:
        weight.grad = torch.zeros_like(weight)
    return weight.grad


def _add_product(total_VD: Tensor, of_logits_TV: Tensor, rows_TD: Tensor) -> None:
    """total += of_logits^T rows, in float32."""
    if rows_TD.dtype == torch.float32:
        total_VD.addmm_(of_logits_TV.T, rows_TD)
    else:
        total_VD += of_logits_TV.T @ rows_TD
