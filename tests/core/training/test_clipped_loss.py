"""The clipped loss, token by token, against numbers worked out by hand."""

from math import exp, log

import pytest
import torch

from swarm_node.training.objectives import StepSize, clipped_loss, kl_penalty, token_weight

ONE = torch.ones(1)


def one_token(ratio: float, advantage: float) -> tuple[float, float, bool]:
    """Loss, its derivative by the log-prob, and whether it was clipped."""
    log_prob = torch.tensor([log(ratio)], requires_grad=True)
    result = clipped_loss(
        log_prob, torch.zeros(1), advantage * ONE, ONE, epsilon=0.2, epsilon_high=0.28
    )
    result.loss.backward()
    assert log_prob.grad is not None
    return result.loss.item(), log_prob.grad.item(), bool(result.clipped)


@pytest.mark.parametrize(
    ("ratio", "advantage", "loss", "slope", "clipped"),
    [
        (1.0, 2.0, -2.0, -2.0, False),
        (1.25, 2.0, -2.5, -2.5, False),  # below 1.28: still free
        (1.5, 2.0, -2.56, 0.0, True),  # held at 1.28
        (0.5, 2.0, -1.0, -1.0, False),  # a loss of a good token is never held
        (0.5, -2.0, 1.6, 0.0, True),  # held at 0.8
        (0.9, -2.0, 1.8, 1.8, False),
        (1.5, -2.0, 3.0, 3.0, False),  # a gain of a bad token is never held
        (1000.0, -3.0, 3000.0, 3000.0, False),  # nor is a large loss
    ],
)
def test_the_clip_holds_tokens_that_went_far_enough(ratio, advantage, loss, slope, clipped) -> None:
    assert one_token(ratio, advantage) == pytest.approx((loss, slope, clipped), rel=1e-5, abs=1e-5)


@pytest.mark.parametrize(
    ("loss_type", "weights"),
    [("grpo", (1 / 4, 1 / 4, 1 / 2)), ("dapo", (1 / 3,) * 3), ("dr_grpo", (1 / 20,) * 3)],
)
def test_weights_of_a_completion_of_two_tokens_and_one_of_one(loss_type, weights) -> None:
    step = StepSize(completions=2, tokens=3)
    ours = [token_weight(length, step, loss_type, max_completion_length=10) for length in (2, 2, 1)]
    assert ours == pytest.approx(weights)


def test_the_penalty_is_zero_at_the_reference_and_the_k3_estimate_elsewhere() -> None:
    theta = torch.tensor([-1.0, -2.0], requires_grad=True)
    weights = torch.tensor([0.5, 0.25])
    assert kl_penalty(theta, theta.detach(), weights).item() == 0.0
    expected = 0.5 * (exp(0.3) - 0.3 - 1) + 0.25 * (exp(-0.7) + 0.7 - 1)
    assert kl_penalty(theta, torch.tensor([-0.7, -2.7]), weights).item() == pytest.approx(
        expected, abs=1e-6
    )
