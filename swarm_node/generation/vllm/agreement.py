"""Whether a vLLM server has the trainer's weights, judged by how far its log-probs lie from the
trainer's.

Even with the same weights they differ a little. How much depends on the card, the kernels and the
type of numbers: from 1e-6 nats a token in float32 on a CPU to 0.046 that others published for
bfloat16 on cards. So no fixed bound is right for all. The first round is made with weights that the
server has just read, so it shows what rounding alone does here, and later rounds are compared with
it.
"""

from collections.abc import Sequence
from math import sqrt
from statistics import fmean

# Nats per token, mean. With the right weights others published up to 0.046 on cards; a withheld
# update gave 0.102 or more on a CPU
FIRST = 0.08
# Below this nothing is refused: on a CPU rounding to bfloat16 gave 0.009
LEAST = 0.02
TIMES = 3.0  # as far as in the first round
# Tokens; the mean over fewer may be larger by chance, by the square root of ENOUGH / tokens
ENOUGH = 64


class Agreement:
    """Judges the differences of log-probs of each round, in nats per token."""

    def __init__(self) -> None:
        self.usual: float | None = None  # mean of the first round that was accepted
        self.difference = 0.0  # mean of the last round

    def allows(self, differences: Sequence[float]) -> bool:
        """Whether these absolute differences, one for each token, are those of the same weights."""
        self.difference = fmean(differences)
        allowed = FIRST if self.usual is None else max(LEAST, TIMES * self.usual)
        fine = self.difference <= allowed * max(1.0, sqrt(ENOUGH / len(differences)))
        if fine and self.usual is None and len(differences) >= ENOUGH:
            self.usual = self.difference
        return fine

    def begin(self) -> None:
        """A server was started again: it may run elsewhere, or with other kernels."""
        self.usual = None
