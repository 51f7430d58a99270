"""The clipped GRPO objective over a flat list of tokens.

No padding reaches this file: every tensor is [tokens], one entry per trained completion token, so nothing has to be
masked. A token's weight carries the normalisation, so losses and gradients of micro-batches simply add up.
"""

from typing import Literal, NamedTuple

import torch
from torch import Tensor

LossType = Literal["grpo", "dapo", "dr_grpo"]


class TokenLoss(NamedTuple):
    loss: Tensor  # scalar, weighted sum
    ratio: Tensor  # [tokens] pi_theta / pi_old, detached
    clipped: Tensor  # [tokens] bool: the clip removed this token's gradient


class StepSize(NamedTuple):
    """What one optimiser step trains on, over all its micro-batches."""

    completions: int  # with at least one token
    tokens: int


def token_weight(length: int, step: StepSize, loss_type: LossType, max_completion_length: int) -> float:
    """The weight of each token of a completion of `length`, so that the weighted sum over all tokens is the loss.

    grpo: mean over completions of the mean over tokens (arXiv 2402.03300, eq. 3). dapo: mean over all tokens of the
    step (arXiv 2503.14476). dr_grpo: sum over tokens / (completions x max_completion_length) (arXiv 2503.20783).
    """
    match loss_type:
        case "grpo":
            return 1.0 / (step.completions * length)
        case "dapo":
            return 1.0 / step.tokens
        case "dr_grpo":
            return 1.0 / (step.completions * max_completion_length)


def clipped_loss(
    log_probs: Tensor,
    old_log_probs: Tensor,
    advantages: Tensor,
    weights: Tensor,
    *,
    epsilon: float,
    epsilon_high: float,
) -> TokenLoss:
    """- sum_t w_t min(ratio_t A_t, clip(ratio_t, 1 - epsilon, 1 + epsilon_high) A_t); all inputs are [tokens]."""
    ratio = torch.exp(log_probs - old_log_probs)
    unclipped = ratio * advantages
    bounded = ratio.clamp(1 - epsilon, 1 + epsilon_high) * advantages
    loss = -(weights * torch.min(unclipped, bounded)).sum()
    return TokenLoss(loss, ratio.detach(), (bounded < unclipped).detach())


def kl_penalty(log_probs: Tensor, reference_log_probs: Tensor, weights: Tensor) -> Tensor:
    """Weighted sum of the k3 estimate of KL(pi_theta || pi_reference), exp(d) - d - 1 with d = log ref - log theta."""
    difference = reference_log_probs - log_probs
    return (weights * (torch.exp(difference) - difference - 1)).sum()
