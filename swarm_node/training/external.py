"""Weights for external completions, whose policy is unknown.

Nothing is known of the author's policy but the log-probs that it may send along. These are advice: they change a weight
only within bounds. Its tokens are not ours, so only whole completions can be compared, and only per character.

Rules for completions: `admission` treats a completion as if our policy had generated it (ratio 1; SAPO as published).
`sequence` compares the two policies per character. `expectation` divides by the group's expected probability under its
author. One for tokens, which needs no advice: `shaped` (see `shaping`).
"""

from collections.abc import Callable, Mapping, Sequence
from math import exp, log

from torch import Tensor

LOWEST = 0.8  # of the sequence rule's clip: 1 - d with d = 0.2 (HACPO, arXiv 2603.02604)
HIGHEST = 5.0  # of any weight
GAMMA = 0.1  # of LUFFY's shaping, as published


def sequence(ours: Sequence[float], theirs: Sequence[float], characters: Sequence[int]) -> list[float]:
    """HACPO's weight clip(s, 1 - d, 1) s with s = exp(mean log-prob, ours - theirs), its exponent a = 1.

    Args:
        ours: log-prob of each completion under this policy, summed over its tokens.
        theirs: the same under its author's policy, over its author's tokens.
        characters: length of each completion. The mean is per character, since the two count tokens differently.
    """
    weights = []
    for our, their, count in zip(ours, theirs, characters, strict=True):
        s = exp(min(log(HIGHEST), (our - their) / max(1, count)))
        weights.append(min(HIGHEST, min(1.0, max(LOWEST, s)) * s))
    return weights


def expectation(ours: Sequence[float], theirs: Sequence[float], characters: Sequence[int]) -> list[float]:
    """GEPO (arXiv 2508.17850): w = p(y) / E with E = sum q^2 / sum q over the group.

    All completions are divided by the same E, so one that was very unlikely for its author cannot get a huge weight.
    Probabilities are per character (geometric mean): those of whole completions differ by orders of magnitude.
    """
    p = [our / max(1, count) for our, count in zip(ours, characters, strict=True)]
    q = [exp(min(0.0, their / max(1, count))) for their, count in zip(theirs, characters, strict=True)]
    expected = sum(x * x for x in q) / sum(q) if sum(q) else 0.0
    if expected <= 0.0:
        return [1.0] * len(p)
    return [min(HIGHEST, exp(min(log(HIGHEST), value - log(expected)))) for value in p]


def shaping(log_probs: Tensor) -> Tensor:
    """LUFFY's weight of the tokens of good external completions, in (0, 1/4]; [tokens] in and out.

    LUFFY (arXiv 2504.14945) replaces the ratio by f(p) = p / (p + g), g = 0.1. At the first step the gradient of f(p)
    is this weight times that of log p: f'(p) p = g p / (p + g)^2. It is largest at p = g, and small where a token is
    all but certain, and where it is all but impossible.
    """
    p = log_probs.exp()
    return GAMMA * p / (p + GAMMA) ** 2


ExternalRule = Callable[[Sequence[float], Sequence[float], Sequence[int]], list[float]]
EXTERNAL_RULES: Mapping[str, ExternalRule | None] = {
    "admission": None,
    "sequence": sequence,
    "expectation": expectation,
    "shaped": None,  # it weighs tokens, not completions
}
