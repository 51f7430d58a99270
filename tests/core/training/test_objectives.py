"""Objectives for stale text against numbers worked out by hand, their slopes, and what they have in
common.
"""

from math import log

import pytest
import torch

from swarm_node.common import plugins
from swarm_node.training.objectives import Bounds, Terms

OBJECTIVES = {name: plugins.load("objectives", name) for name in plugins.registered("objectives")}
NAMES = sorted(OBJECTIVES)
LOCAL = torch.tensor([False])


def terms(theta, behaviour, proximal, advantage, *, staleness=1.0, weight=1.0) -> Terms:
    """One token, given by probabilities."""
    values = [torch.tensor([log(p)], dtype=torch.float64) for p in (theta, behaviour, proximal)]
    values[0].requires_grad_()
    rest = [torch.tensor([x], dtype=torch.float64) for x in (staleness, advantage, weight)]
    return Terms(*values, *rest, LOCAL)


def loss_and_slope(name: str, given: Terms, bounds: Bounds = Bounds()) -> tuple[float, float]:  # noqa: B008
    loss = OBJECTIVES[name](given, bounds).loss
    loss.backward()
    assert given.log_probs.grad is not None
    return loss.item(), given.log_probs.grad.item()


@pytest.mark.parametrize(
    ("name", "theta", "behaviour", "proximal", "advantage", "loss", "slope"),
    [
        # clipped: theta / behaviour = 2 is beyond 1.28: held, no slope, though the update has not
        # begun
        ("clipped", 0.4, 0.2, 0.4, 1.0, -1.28, 0.0),
        # decoupled: proximal / behaviour = 2 weighs the token, theta / proximal = 1 is free
        ("decoupled", 0.4, 0.2, 0.4, 1.0, -2.0, -2.0),
        ("decoupled", 0.4, 0.2, 0.4, -1.0, 2.0, 2.0),
        # theta / proximal = 1.5 is held at 1.28, times 2
        ("decoupled", 0.6, 0.2, 0.4, 1.0, -2.56, 0.0),
        # theta / proximal = 0.5 of a bad token is held at 0.8, times 2
        ("decoupled", 0.2, 0.2, 0.4, -1.0, 1.6, 0.0),
        # proximal / behaviour = 4.9 weighs the token; at 5.1 and 10 it is masked, good or bad
        ("decoupled", 0.49, 0.1, 0.49, 1.0, -4.9, -4.9),
        ("decoupled", 0.51, 0.1, 0.51, 1.0, 0.0, 0.0),
        ("decoupled", 0.5, 0.05, 0.5, -1.0, 0.0, 0.0),
        # so much that exp overflows
        ("decoupled", 0.5, 1e-320, 0.5, 1.0, 0.0, 0.0),
        # truncated: proximal / behaviour = 10 is held at 2
        ("truncated", 0.5, 0.05, 0.5, 1.0, -2.0, -2.0),
        ("truncated", 0.15, 0.1, 0.15, 1.0, -1.5, -1.5),
        # imitating holds external tokens as decoupled does: this one is a local one
        ("imitating", 0.5, 0.05, 0.5, 1.0, 0.0, 0.0),
        # clipped: the ratio of 10 of a bad token is not held
        ("clipped", 0.5, 0.05, 0.5, -1.0, 10.0, 10.0),
    ],
)
def test_one_token_by_hand(name, theta, behaviour, proximal, advantage, loss, slope) -> None:
    assert loss_and_slope(name, terms(theta, behaviour, proximal, advantage)) == pytest.approx(
        (loss, slope)
    )


def test_the_decoupled_loss_is_areals_with_its_mask() -> None:
    """ppo_actor_loss_fn of AReaL (areal/utils/functional/functional.py) with the defaults of its
    RejectionSamplingConfig, token by token, from probabilities. Its mean is over all tokens of the
    batch, masked ones included.
    """
    torch.manual_seed(3)
    theta, behaviour, proximal = (torch.rand(400, dtype=torch.float64) for _ in range(3))
    advantages = torch.randn(400, dtype=torch.float64)
    losses, masked = list[float](), 0
    for now, wrote, before, advantage in zip(
        theta.tolist(), behaviour.tolist(), proximal.tolist(), advantages.tolist(), strict=True
    ):
        ratio, weight = now / before, before / wrote
        held = min(max(ratio, 0.8), 1.28)
        masked += weight > 5.0
        losses.append(weight * max(-ratio * advantage, -held * advantage) if weight <= 5.0 else 0.0)
    assert 10 < masked < 100
    even = torch.full((400,), 1 / 400, dtype=torch.float64)
    logs = [p.log() for p in (theta, behaviour, proximal)]
    found = OBJECTIVES["decoupled"](
        Terms(*logs, torch.ones_like(even), advantages, even, LOCAL), Bounds()
    )
    assert found.loss.item() == pytest.approx(sum(losses) / 400, rel=1e-12)


def test_a_masked_token_is_not_counted_as_clipped() -> None:
    # theta / proximal = 2 is beyond 1.28 in both; proximal / behaviour is 1 and 10
    assert OBJECTIVES["decoupled"](terms(0.8, 0.4, 0.4, 1.0), Bounds()).clipped.item()
    assert not OBJECTIVES["decoupled"](terms(0.8, 0.04, 0.4, 1.0), Bounds()).clipped.item()


@pytest.mark.parametrize("name", NAMES)
def test_on_fresh_text_all_are_the_same(name) -> None:
    for advantage in (1.5, -0.5):
        given = terms(0.3, 0.3, 0.3, advantage, staleness=0.0, weight=0.25)
        assert loss_and_slope(name, given) == pytest.approx((-0.25 * advantage, -0.25 * advantage))


@pytest.mark.parametrize("name", NAMES)
def test_slopes_are_those_of_the_loss(name) -> None:
    torch.manual_seed(0)
    behaviour = -torch.rand(40, dtype=torch.float64) * 3
    proximal = behaviour + 0.5 * torch.randn(40, dtype=torch.float64)
    theta = (proximal + 0.2 * torch.randn(40, dtype=torch.float64)).requires_grad_()
    staleness = torch.randint(0, 4, (40,)).double()
    advantages, weights = torch.randn(40, dtype=torch.float64), torch.rand(40, dtype=torch.float64)

    def loss(log_probs: torch.Tensor) -> torch.Tensor:
        given = Terms(log_probs, behaviour, proximal, staleness, advantages, weights, LOCAL)
        return OBJECTIVES[name](given, Bounds()).loss

    assert torch.autograd.gradcheck(loss, (theta,))


@pytest.mark.parametrize("name", NAMES)
def test_the_ratio_reported_is_that_of_present_and_writing_policy_and_carries_no_gradient(
    name,
) -> None:
    result = OBJECTIVES[name](terms(0.4, 0.2, 0.3, 1.0), Bounds())
    assert result.ratio.item() == pytest.approx(2.0) and not result.ratio.requires_grad
    assert result.clipped.dtype == torch.bool
