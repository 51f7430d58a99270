"""How much is generated at once, and when a completion that has gone astray is broken off. Both are off by default."""

from collections.abc import Sequence

import torch
from torch import Tensor

SLACK = 1.3  # completions that end early make room for so many more (OpenPipe's recipe)


class Pace:
    """Admits as many completions at a time as are expected to stay within a number of tokens."""

    def __init__(self, max_tokens: int, longest: int) -> None:
        """`max_tokens`: prompts and completions together, 0 for no limit. `longest`: tokens of a completion at most,
        which is what the first ones are taken for."""
        self._max_tokens = max_tokens
        self._completion = float(longest)

    def admits(self, prompt_tokens: float) -> int:
        """Completions to prompts of this mean length; at least one."""
        if not self._max_tokens:
            return 2**31
        return max(1, int(SLACK * self._max_tokens / (prompt_tokens + self._completion)))

    def saw(self, lengths: Sequence[int]) -> None:
        """Learn from completions: the expected length is a running mean, half of it the latest."""
        if lengths:
            self._completion += (sum(lengths) / len(lengths) - self._completion) / 2


class Astray:
    """Which completions have become improbable: an exponentially weighted mean of their log-probs fell too low."""

    def __init__(self, below: float, memory: float, rows: int, device: torch.device) -> None:
        """`below`: the bound, in nats per token, 0 for none; `memory`: weight of the past at each token."""
        self._below, self._memory = below, memory
        self._mean = torch.zeros(rows, device=device)  # from 0, so that the first tokens cannot end a completion

    def take(self, rows: Tensor, log_probs: Tensor) -> Tensor:
        """Whether each of these rows is to be broken off, given the log-prob of its latest token."""
        if not self._below:
            return torch.zeros_like(rows, dtype=torch.bool)
        self._mean[rows] = self._memory * self._mean[rows] + (1 - self._memory) * log_probs
        return self._mean[rows] < self._below
