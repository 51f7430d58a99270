"""From advantages to the loss (GRPO, arXiv 2402.03300; SAPO, arXiv 2509.08721), and what an update
adds up over its micro-batches. The advantages are those of rollouts/advantages.py.

pyproject.toml names objectives, as it names plug-ins. An objective takes a flat list of tokens: no
padding reaches this file. Every tensor is [T], one entry per trained completion token, so nothing
has to be masked and no name needs a suffix. A token's weight holds the normalisation, so losses and
gradients of micro-batches add up.

There are three policies: `behaviour` generated the completion, `proximal` is the policy just before
this update, and the present one carries the gradient. The trust region belongs around `proximal`.
Around `behaviour` it would hold back older completions, the more the older they are (AReaL, arXiv
2505.24298).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from swarm_node.policy.hardware import exact_device

# Users' files import these names from here
from swarm_node.rollouts.advantages import Advantages as Advantages
from swarm_node.rollouts.advantages import group_advantages as group_advantages
from swarm_node.rollouts.advantages import population_advantages as population_advantages
from swarm_node.rollouts.advantages import unscaled_advantages as unscaled_advantages

LossType = Literal["grpo", "dapo", "dr_grpo"]


class TokenLoss(NamedTuple):
    """The loss of the tokens of a batch, and their figures for the report."""

    loss: Tensor  # scalar, weighted sum
    ratio: Tensor  # [T] pi_theta / pi_old, detached
    clipped: Tensor  # [T] bool: the clip removed this token's gradient


class StepSize(NamedTuple):
    """What one optimiser step trains on, over all its micro-batches."""

    completions: int  # with at least one token
    tokens: int


def token_weight(
    length: int, step: StepSize, loss_type: LossType, max_completion_length: int
) -> float:
    """The weight of each token of a completion of `length`, so that the weighted sum over all
    tokens is the loss.

    grpo: mean over completions of the mean over tokens (arXiv 2402.03300, eq. 3). dapo: mean over
    all tokens of the step (arXiv 2503.14476). dr_grpo: sum over tokens / (completions x
    max_completion_length) (arXiv 2503.20783).
    """
    match loss_type:
        case "grpo":
            return 1.0 / (step.completions * length)
        case "dapo":
            return 1.0 / step.tokens
        case "dr_grpo":
            return 1.0 / (step.completions * max_completion_length)


def clipped_loss(
    log_probs: Tensor,
    old_log_probs: Tensor,
    advantages: Tensor,
    weights: Tensor,
    *,
    epsilon: float,
    epsilon_high: float,
) -> TokenLoss:
    """- sum_t w_t min(ratio_t A_t, clip(ratio_t, 1 - epsilon, 1 + epsilon_high) A_t); all inputs
    are [T].
    """
    ratio = torch.exp(log_probs - old_log_probs)
    unclipped = ratio * advantages
    bounded = ratio.clamp(1 - epsilon, 1 + epsilon_high) * advantages
    loss = -(weights * torch.min(unclipped, bounded)).sum()
    return TokenLoss(loss, ratio.detach(), (bounded < unclipped).detach())


def kl_penalty(log_probs: Tensor, reference_log_probs: Tensor, weights: Tensor) -> Tensor:
    """Weighted sum of the k3 estimate of KL(pi_theta || pi_reference), exp(d) - d - 1 with d = log
    ref - log theta.
    """
    difference = reference_log_probs - log_probs
    return (weights * (torch.exp(difference) - difference - 1)).sum()


class Terms(NamedTuple):
    """What an objective is computed from, [T] each. Only `log_probs` carries a gradient."""

    log_probs: Tensor
    # Log-probs of the policy that generated the token; external completions: `proximal`
    behaviour: Tensor
    proximal: Tensor  # log-probs of the policy just before this update
    # Updates between the weights that generated the token and those before this update
    staleness: Tensor
    advantages: Tensor
    weights: Tensor
    external: Tensor  # bool: a peer generated the token


class Bounds(NamedTuple):
    """Limits of the ratios of a token."""

    epsilon: float = 0.2
    epsilon_high: float = 0.28
    # Largest proximal / behaviour of a token: `decoupled` masks tokens beyond it
    importance: float = 5.0


Objective = Callable[[Terms, Bounds], TokenLoss]


def clipped(terms: Terms, bounds: Bounds) -> TokenLoss:
    """PPO around the policy that generated the completion: right for fresh completions, not for
    stale ones.
    """
    return clipped_loss(
        terms.log_probs,
        terms.behaviour,
        terms.advantages,
        terms.weights,
        epsilon=bounds.epsilon,
        epsilon_high=bounds.epsilon_high,
    )


def decoupled(terms: Terms, bounds: Bounds) -> TokenLoss:
    """PPO around the proximal policy, each token weighted by proximal / behaviour (AReaL, eq. 5).

    A token beyond the limit is masked, as by AReaL's rejection sampling (level token, action mask,
    metric ratio, upper 5): it has no gradient, and still counts in the normalisation.
    """
    importance = _importance(terms)
    kept = importance <= bounds.importance
    return _around_proximal(terms, bounds, torch.where(kept, importance, 0.0))


def truncated(terms: Terms, bounds: Bounds) -> TokenLoss:
    """Truncated importance sampling: as `decoupled`, but a weight beyond 2 is clamped to 2."""
    return _around_proximal(terms, bounds, _importance(terms).clamp_max(2.0))


def _importance(terms: Terms) -> Tensor:
    """[T] proximal / behaviour."""
    return torch.exp((terms.proximal - terms.behaviour).detach())


def _around_proximal(terms: Terms, bounds: Bounds, importance: Tensor) -> TokenLoss:
    """PPO around the proximal policy, each token weighted by `importance`. A masked token is not
    counted as clipped.
    """
    weights = terms.weights * importance
    loss = clipped(terms._replace(behaviour=terms.proximal, weights=weights), bounds)
    return loss._replace(
        ratio=torch.exp(terms.log_probs.detach() - terms.behaviour),
        clipped=loss.clipped & (importance > 0),
    )


def imitating(terms: Terms, bounds: Bounds) -> TokenLoss:
    """Supervised fine-tuning on external completions that are better than their group, nothing from
    the others; local ones as in `decoupled`.
    """
    better = (terms.advantages > 0).to(terms.advantages.dtype)
    return decoupled(
        terms._replace(advantages=torch.where(terms.external, better, terms.advantages)), bounds
    )


# Objectives that do not read `proximal`: an update of several steps need not compute it. Of an
# objective of the user's nothing is known, so it is computed
WITHOUT_PROXIMAL: tuple[Objective, ...] = (clipped,)


@dataclass(frozen=True, slots=True)
class Mismatch:
    """How far the log-probs of training are from those of generation, for tokens that had the same
    weights in both: a decoder and a training forward differ in the order of sums and in precision.
    Sums over tokens so far; add with `plus` and `joined`.
    """

    tokens: int = 0
    absolute: float = 0.0  # sum of |difference of log-probs|
    largest: float = 0.0
    # Sum of exp(d) - d - 1, d = log train - log generated: estimates KL(generated || train)
    k3: float = 0.0

    @property
    def mean(self) -> float:
        return self.absolute / max(1, self.tokens)

    @property
    def kl(self) -> float:
        """K3 estimate of the divergence, nats per token."""
        return self.k3 / max(1, self.tokens)

    def plus(self, generated: Tensor, trained: Tensor) -> "Mismatch":
        """Adds more tokens, by their log-probs [T]."""
        if not len(trained):
            return self
        everywhere = torch.ones_like(trained, dtype=torch.bool)
        return self.joined(mismatch_of(mismatch_sums(generated, trained, everywhere).tolist()))

    def joined(self, other: "Mismatch") -> "Mismatch":
        """The mismatch over the tokens of both."""
        return Mismatch(
            self.tokens + other.tokens,
            self.absolute + other.absolute,
            max(self.largest, other.largest),
            self.k3 + other.k3,
        )


NONE = Mismatch()


def mismatch_sums(generated: Tensor, trained: Tensor, among: Tensor) -> Tensor:
    """The fields of a mismatch as numbers [4] on the device, over the tokens where `among` is true,
    by log-probs [T]. In float64, since the terms of K3 nearly cancel.
    """
    exact = exact_device(trained.device)
    every = trained.to(exact).double() - generated.to(exact).double()
    # Elsewhere nothing differs: to choose tokens by a mask, a device would have to count them first
    difference = torch.where(among.to(exact), every, 0.0)
    absolute = difference.abs()
    k3 = torch.expm1(difference) - difference
    return torch.stack([among.to(exact).sum().double(), absolute.sum(), absolute.max(), k3.sum()])


def mismatch_of(sums: Sequence[float]) -> Mismatch:
    """The mismatch of these `mismatch_sums`."""
    tokens, absolute, largest, k3 = sums
    return Mismatch(round(tokens), absolute, largest, k3)


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
        """Counts a group that was skipped."""
        self.skipped[reason] = self.skipped.get(reason, 0) + 1

    def read(self, figures: Sequence[Tensor]) -> float:
        """Counts micro-batches by their `figures_of`, and returns their loss. Waits here, and once,
        until a device has computed all of them.
        """
        loss = 0.0
        for values in torch.stack(list(figures)).tolist() if figures else ():
            share, ratio, clipped, entropy, staleness, *sums = values
            loss += share
            self.ratio += ratio
            self.clipped += round(clipped)
            self.entropy += entropy
            self.staleness += staleness
            if self.steps == 0:  # no weight has moved since fresh tokens were generated
                self.mismatch = self.mismatch.joined(mismatch_of(sums))
        return loss

    def add(self, other: "Totals") -> None:
        """Takes in what the micro-batches of one step counted."""
        sums = ("tokens", "ratio", "clipped", "entropy", "local_tokens", "staleness", "halvings")
        for name in sums:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.mismatch = self.mismatch.joined(other.mismatch)


@torch.no_grad()
def figures_of(
    loss: Tensor, result: TokenLoss, terms: Terms, entropy: Tensor, fresh: Tensor
) -> Tensor:
    """The figures of a micro-batch for `Totals.read`, [9] in float64, still on the device. `fresh`:
    [T] bool, the tokens that the present weights generated.
    """
    sums = result.ratio.sum(), result.clipped.sum(), entropy, terms.staleness.sum()
    exact = exact_device(loss.device)
    first = torch.stack([value.detach().to(exact).double() for value in (loss, *sums)])
    return torch.cat([first, mismatch_sums(terms.behaviour, terms.log_probs, fresh)])
