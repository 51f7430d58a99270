"""What one update adds up over its micro-batches, for the report of the round."""

from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Mismatch:
    """How far the log-probs of training are from those of generation, for tokens that had the same weights in both: a
    decoder and a training forward differ in the order of sums and in precision. Sums over tokens so far; add with
    `plus` and `joined`."""

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


NONE = Mismatch()


@dataclass(slots=True)
class Totals:
    """Sums over the micro-batches of one update."""

    loss: float = 0.0
    grad_norm: float = 0.0
    steps: int = 0
    tokens: int = 0
    ratio: float = 0.0
    clipped: int = 0
    entropy: float = 0.0
    local_tokens: int = 0
    staleness: float = 0.0
    halvings: int = 0
    mismatch: Mismatch = NONE
    skipped: dict[str, int] = field(default_factory=dict)

    def skip(self, reason: str) -> None:
        """Counts a group that was left out."""
        self.skipped[reason] = self.skipped.get(reason, 0) + 1

    def add(self, other: "Totals") -> None:
        """Takes in what the micro-batches of one step counted, of this rank or of another."""
        for name in ("tokens", "ratio", "clipped", "entropy", "local_tokens", "staleness"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.mismatch = self.mismatch.joined(other.mismatch)
