"""How far the log-probs of training are from those of generation, for tokens that had the same weights in both.

A decoder and a training forward differ in the order of sums, precision and FP8. This measures by how much.
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
    k3: float = 0.0  # sum of exp(d) - d - 1, d = log train - log generated: estimates KL(generated || train)

    @property
    def mean(self) -> float:
        return self.absolute / max(1, self.tokens)

    @property
    def kl(self) -> float:
        """K3 estimate of the divergence, nats per token."""
        return self.k3 / max(1, self.tokens)

    def plus(self, generated: Tensor, trained: Tensor) -> "Mismatch":
        """Adds more tokens, by their log-probs [tokens]. In float64, since the terms of K3 nearly cancel."""
        difference = trained.double() - generated.double()
        if not len(difference):
            return self
        return Mismatch(
            self.tokens + len(difference),
            self.absolute + float(difference.abs().sum()),
            max(self.largest, float(difference.abs().max())),
            self.k3 + float((torch.expm1(difference) - difference).sum()),
        )
