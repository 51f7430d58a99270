"""The one definition of the policy's distribution, for sampling and for training, and log-probs under it in chunks.

Temperature changes what is sampled. A log-prob that ignores it belongs to another policy, and the probability ratio
means nothing. Tokens are drawn from the whole vocabulary: neither top-k nor top-p cuts it off.

With a vocabulary of 150,000 the logits of a micro-batch are larger than the model. So `projected_log_probs` projects
the hidden states of a few tokens at a time, turns each row of logits into a log-prob and an entropy, drops it, and
computes it again backwards. The log-prob of a token taken has the gradient (one-hot - probabilities) /
temperature. Fused kernels (Liger's, TRL's) do not give the entropy, and need a GPU or Triton.

Suffixes of tensors: see policy/batch.py.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

CHUNK_BYTES = 2**27  # of a chunk's logits in float32


def log_distribution(logits: Tensor, temperature: float) -> Tensor:
    """Log-probabilities [..., vocabulary] (float32) of the distribution that tokens are sampled from, of `logits`
    [..., vocabulary] of any float type."""
    scaled = logits.float()
    return torch.log_softmax(scaled if temperature == 1.0 else scaled / temperature, dim=-1)


def log_probs_of(logits: Tensor, ids: Tensor, temperature: float) -> Tensor:
    """Log-prob of each of `ids` [...] under `logits` [..., vocabulary]."""
    return log_distribution(logits, temperature).gather(-1, ids.unsqueeze(-1)).squeeze(-1)


def chunk_rows(vocabulary: int) -> int:
    """Rows of a chunk."""
    return max(1, CHUNK_BYTES // (4 * vocabulary))


def is_large(tokens: int, vocabulary: int, hidden: int) -> bool:
    """Whether the logits of so many tokens, or the head's own gradient, take more than one chunk. The direct way is
    faster for less, but holds a second gradient of the head, and a third where the head is the embedding."""
    return 4 * vocabulary * max(tokens, hidden) > CHUNK_BYTES


def projected_log_probs(hidden: Tensor, head: nn.Linear, taken: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """Log-prob of each token taken, and the entropy of the distribution it was taken from, without a gradient.

    Args:
        hidden: [tokens, hidden], what the output head is given.
        taken: [tokens] ids.
    """
    rows = chunk_rows(head.weight.shape[0])
    found = _Projected.apply(hidden, head.weight, head.bias, taken, temperature, rows)  # type: ignore[no-untyped-call]
    log_probs, entropies = found
    return log_probs, entropies


class _Projected(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None, taken: Tensor, temperature: float, rows: int
    ) -> tuple[Tensor, Tensor]:
        kind = hidden.device.type
        ctx.temperature, ctx.rows = temperature, rows
        ctx.dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else hidden.dtype
        ctx.save_for_backward(hidden, weight, bias, taken)
        log_probs, entropies = torch.empty(2, len(taken), dtype=torch.float32, device=hidden.device)
        with torch.autocast(kind, enabled=False):
            used = _Head(weight, bias, ctx.dtype)
            for part in _parts(len(taken), rows):
                log_p = log_distribution(used(hidden[part]), temperature)
                log_probs[part] = log_p.gather(-1, taken[part, None])[:, 0]
                entropies[part] = _entropies(log_p)
        ctx.mark_non_differentiable(entropies)
        return log_probs, entropies

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        hidden, weight, bias, taken = ctx.saved_tensors
        of_hidden = torch.empty_like(hidden) if ctx.needs_input_grad[0] else None
        of_weight = _total(weight) if ctx.needs_input_grad[1] else None
        of_bias = torch.zeros_like(bias, dtype=torch.float32) if ctx.needs_input_grad[2] else None
        scale = gradients[0] / ctx.temperature
        with torch.autocast(hidden.device.type, enabled=False):
            used = _Head(weight, bias, ctx.dtype)
            for part in _parts(len(taken), ctx.rows):
                rows = hidden[part].to(ctx.dtype)
                of_logits = _of_logits(log_distribution(used(rows), ctx.temperature), taken[part], scale[part])
                of_logits = of_logits.to(ctx.dtype)
                if of_hidden is not None:
                    of_hidden[part] = of_logits @ used.weight
                if of_weight is not None:
                    _add_product(of_weight, of_logits, rows)
                if of_bias is not None:
                    of_bias += of_logits.sum(0, dtype=torch.float32)
                del of_logits  # before the next chunk is made
        if of_weight is weight.grad:
            of_weight = None  # it is there already
        of_head = [None if g is None else g.to(weight.dtype) for g in (of_weight, of_bias)]
        return of_hidden, *of_head, None, None, None


class _Head:
    """The output head in the type that products have."""

    def __init__(self, weight: Tensor, bias: Tensor | None, dtype: torch.dtype) -> None:
        self.weight, self.dtype = weight.to(dtype), dtype
        self.bias = None if bias is None else bias.to(dtype)

    def __call__(self, hidden: Tensor) -> Tensor:
        return F.linear(hidden.to(self.dtype), self.weight, self.bias)


def _parts(tokens: int, rows: int) -> list[slice]:
    return [slice(first, first + rows) for first in range(0, tokens, rows)]


def _entropies(log_p: Tensor) -> Tensor:
    """Of each row; `log_p` is used up. A share that underflows to 0 may have a log-prob of minus infinity."""
    p = log_p.exp()
    return log_p.clamp_min_(torch.finfo(torch.float32).min).mul_(p).sum(-1).neg_()


def _of_logits(log_p: Tensor, taken: Tensor, scale: Tensor) -> Tensor:
    """Gradient of the logits: (one-hot - probabilities) times `scale` of the row. `log_p` is used up."""
    result = log_p.exp_().neg_()
    return result.scatter_add_(-1, taken[:, None], torch.ones_like(result[:, :1])).mul_(scale[:, None])


def _total(weight: Tensor) -> Tensor:
    """Where the gradient of the head is added up: in float32, and if the weight is, in its own `grad`.

    Handed to autograd it would wait there, as large as the embedding, until the embedding's own has been computed.
    """
    if weight.dtype != torch.float32 or not weight.is_leaf:
        return torch.zeros_like(weight, dtype=torch.float32)
    if weight.grad is None:
        weight.grad = torch.zeros_like(weight)
    return weight.grad


def _add_product(total: Tensor, of_logits: Tensor, rows: Tensor) -> None:
    """total += of_logits^T rows, in float32."""
    if rows.dtype == torch.float32:
        total.addmm_(of_logits.T, rows)
    else:
        total += of_logits.T @ rows
