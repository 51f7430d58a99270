"""How much is generated at once, and when a completion that has gone astray is broken off. Both are
off by default.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

ROUNDING = 1e-6  # of the quotients below
SLACK = 1.3  # completions that end early make room for so many more (OpenPipe's recipe)


class ConcurrencyLimit:
    """Admits as many completions at a time as are expected to stay within a number of tokens, and
    no more than have fitted since memory ran out.
    """

    def __init__(self, max_tokens: int, longest: int) -> None:
        """`max_tokens`: prompts and completions together, 0 for no limit. `longest`: tokens of a
        completion at most, which is assumed for the first ones.
        """
        self._max_tokens = max_tokens
        self._longest = self._completion = float(longest)
        self._fitting = float("inf")  # tokens that fitted where more did not

    def admits(self, prompt_tokens: float) -> int:
        """Completions to prompts of this mean length; at least one."""
        fitting = self._fitting / (prompt_tokens + self._longest)
        if self._max_tokens:
            fitting = min(fitting, SLACK * self._max_tokens / (prompt_tokens + self._completion))
        return max(1, int(min(fitting + ROUNDING, 2**31)))

    def ran_out(self, completions: int, prompt_tokens: float) -> None:
        """Memory ran out for more than so many completions to prompts of this mean length: from
        now on no more are admitted.
        """
        room = completions * (prompt_tokens + self._longest)
        self._fitting = min(self._fitting, room)

    def saw(self, lengths: Sequence[int]) -> None:
        """Learn from completions: the expected length is a running mean, half of it the latest."""
        if lengths:
            self._completion += (sum(lengths) / len(lengths) - self._completion) / 2


@dataclass(frozen=True, slots=True)
class Astray:
    """Which completions have become improbable: an exponentially weighted mean of their log-probs
    fell too low.
    """

    below: float  # the bound, in nats per token, 0 for none
    memory: float = 0.992  # weight of the past at each token

    def __call__(self, mean: Tensor, log_probs: Tensor) -> tuple[Tensor, Tensor | None]:
        """The mean [slots] with the log-prob of the latest token, and whether it is too low; None
        if there is no bound.

        Means start from 0, so that the first tokens cannot end a completion.
        """
        if not self.below:
            return mean, None
        mean = self.memory * mean + (1 - self.memory) * log_probs
        return mean, mean < self.below
