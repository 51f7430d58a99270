"""How far the log-probs of training are from those of generation, for tokens that had the same weights in both.

A decoder and a training forward differ in the order of sums, precision and FP8. This measures by how much.
"""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Sums over tokens so far; add with `plus` and `joined`."""

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
        found = Mismatch(
            len(difference),
            float(difference.abs().sum()),
            float(difference.abs().max()),
            float((torch.expm1(difference) - difference).sum()),
        )
        return self.joined(found)

    def joined(self, other: "Mismatch") -> "Mismatch":
        """Of the tokens of both."""
        return Mismatch(
            self.tokens + other.tokens,
            self.absolute + other.absolute,
            max(self.largest, other.largest),
            self.k3 + other.k3,
        )
