"""How far the policy that trains is from the one that wrote, on tokens that both saw with the same weights.

Numbers differ between a decoder and a training forward (order of sums, precision, FP8); this says by how much.
"""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Sums over tokens so far; add with `plus`."""

    tokens: int = 0
    absolute: float = 0.0  # sum of |difference of log-probs|
    largest: float = 0.0
    k3: float = 0.0  # sum of exp(d) - d - 1, d = log train - log written: estimates KL(written || train)

    @property
    def mean(self) -> float:
        return self.absolute / max(1, self.tokens)

    @property
    def kl(self) -> float:
        """K3 estimate of the divergence, nats per token."""
        return self.k3 / max(1, self.tokens)

    def plus(self, written: Tensor, trained: Tensor) -> "Mismatch":
        """With log-probs [tokens] of more tokens; float64, since the terms of K3 nearly cancel."""
        difference = trained.double() - written.double()
        if not len(difference):
            return self
        return Mismatch(
            self.tokens + len(difference),
            self.absolute + float(difference.abs().sum()),
            max(self.largest, float(difference.abs().max())),
            self.k3 + float((torch.expm1(difference) - difference).sum()),
        )
