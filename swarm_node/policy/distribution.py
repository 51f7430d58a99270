"""The one definition of the policy's distribution. Sampling and training both use it.

Temperature, top-k and top-p change what is sampled. A log-prob that ignores one of them belongs to another policy, and
the probability ratio means nothing.
"""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class SamplingRule:
    """How logits become the distribution that is sampled from and trained on."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0

    @property
    def restricts(self) -> bool:
        """Whether some tokens are ruled out."""
        return self.top_p < 1.0 or self.top_k > 0


def log_distribution(logits: Tensor, rule: SamplingRule, taken: Tensor | None = None) -> Tensor:
    """Log-probabilities [..., vocabulary] (float32) of the distribution that tokens are sampled from.

    Args:
        logits: [..., vocabulary], any float type.
        taken: [...] ids that stay possible whatever the rule. After an update, or in a completion of another policy, a
            token may be outside this policy's nucleus. Its log-prob must stay finite.
    """
    scaled = logits.float()
    if rule.temperature != 1.0:
        scaled = scaled / rule.temperature
    if rule.restricts:
        scaled = _restrict(scaled, rule, taken)
    return torch.log_softmax(scaled, dim=-1)


def log_probs_of(logits: Tensor, ids: Tensor, rule: SamplingRule) -> Tensor:
    """Log-prob of each of `ids` [...] under `logits` [..., vocabulary]."""
    return log_distribution(logits, rule, ids).gather(-1, ids.unsqueeze(-1)).squeeze(-1)


def _restrict(scaled: Tensor, rule: SamplingRule, taken: Tensor | None) -> Tensor:
    """`scaled` with -inf for tokens outside top-k, then outside the nucleus of what is left."""
    out = torch.zeros_like(scaled, dtype=torch.bool)
    if 0 < rule.top_k < scaled.shape[-1]:
        out = scaled < scaled.topk(rule.top_k, dim=-1).values[..., -1:]
    if rule.top_p < 1.0:
        ordered, order = scaled.masked_fill(out, float("-inf")).sort(dim=-1, descending=True)
        probs = torch.softmax(ordered, dim=-1)
        before = probs.cumsum(dim=-1) - probs  # a token is in the nucleus while the mass before it is below top_p
        out = out | torch.zeros_like(out).scatter(-1, order, before >= rule.top_p)
    if taken is not None:
        out = out.scatter(-1, taken.unsqueeze(-1), False)
    return scaled.masked_fill(out, float("-inf"))
