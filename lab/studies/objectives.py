"""Objectives and advantages that only studies use. An objective changes only what a peer's
completions contribute. For all others it is `clipped`, in float32 the same number as the default.

A study names one as `training.objective = named("shaped")`.
"""

from collections.abc import Sequence
from pathlib import Path
from random import Random

import torch
from torch import Tensor

from swarm_node.training.objectives import Bounds, Terms, TokenLoss, clipped, group_advantages

GAMMA = 0.1  # of LUFFY's shaping, as published
CARDS = Random(0)


def named(name: str) -> str:
    """A function of this file as the value of an option: a path, since workers of a simulation
    cannot import `lab`.
    """
    return f"{Path(__file__).resolve()}:{name}"


def shaped(terms: Terms, bounds: Bounds) -> TokenLoss:
    """Weighs a peer's tokens with positive advantages by how likely they are here (LUFFY; see
    `shaping`).
    """
    good = terms.external & (terms.advantages > 0)
    advantages = torch.where(good, terms.advantages * shaping(terms.behaviour), terms.advantages)
    return clipped(terms._replace(advantages=advantages), bounds)


def without_negatives(terms: Terms, bounds: Bounds) -> TokenLoss:
    """Nothing is learned from a peer's completions that are worse than their group (arXiv
    2605.17570).
    """
    vetoed = terms.external & (terms.advantages < 0)
    return clipped(terms._replace(advantages=terms.advantages.masked_fill(vetoed, 0.0)), bounds)


def shaping(log_probs: Tensor) -> Tensor:
    """LUFFY's weight of a token by its log-prob, in (0, 1/4]; [tokens] in and out.

    LUFFY (arXiv 2504.14945) replaces the ratio by f(p) = p / (p + g), g = 0.1. At the first step
    the gradient of f(p) is this weight times that of log p: f'(p) p = g p / (p + g)^2. It is
    largest at p = g, and small where a token is all but certain, and where it is all but
    impossible.
    """
    p = log_probs.exp()
    return GAMMA * p / (p + GAMMA) ** 2


def dealt_at_random(rewards: Sequence[float]) -> list[float]:
    """Advantages of a group after its rewards were dealt to its completions at random, for
    `training.scale_rewards`: a check that nothing is learned from such rewards.
    """
    return group_advantages(CARDS.sample(rewards, len(rewards)))
