"""Objectives of studies: how they change the gradient of external tokens, and that they change no
local token's.
"""

from math import log

import pytest
import torch

from lab.studies import objectives
from lab.studies.objectives import GAMMA, named, shaping
from swarm_node.common import plugins
from swarm_node.training.objectives import Bounds, Terms, clipped, group_advantages

PROBABILITIES = (0.9, 0.1, 0.01, 0.01, 0.9, 0.1)
ADVANTAGES = (1.0, 1.0, 1.0, 1.0, -1.0, -1.0)
EXTERNAL = (True, True, True, False, True, False)


def slopes(objective) -> list[float]:
    """The derivative of the loss by each token's log-prob, at the first step."""
    behaviour = torch.tensor([log(p) for p in PROBABILITIES], dtype=torch.float64)
    theta, zeros = behaviour.clone().requires_grad_(), torch.zeros_like(behaviour)
    advantages, external = torch.tensor(ADVANTAGES, dtype=torch.float64), torch.tensor(EXTERNAL)
    terms = Terms(theta, behaviour, behaviour, zeros, advantages, torch.ones_like(zeros), external)
    objective(terms, Bounds()).loss.backward()
    return theta.grad.tolist()


def test_shaping_changes_what_a_peer_contributes_and_nothing_else() -> None:
    assert slopes(clipped) == pytest.approx([-a for a in ADVANTAGES])
    shaped = [-0.09, -0.25, -0.1 / 1.21, -1.0, 1.0, 1.0]  # p / 10 / (p + 0.1)^2
    # As a simulation finds it
    assert slopes(plugins.load("objectives", named("shaped"))) == pytest.approx(shaped)


def test_shaping_is_the_gradient_of_p_over_p_plus_g() -> None:
    log_probs = torch.tensor(
        [-0.001, -1.0, log(GAMMA), -5.0, -20.0], dtype=torch.float64, requires_grad=True
    )
    p = log_probs.exp()
    (p / (p + GAMMA)).sum().backward()
    assert torch.allclose(shaping(log_probs.detach()), log_probs.grad)
    assert (
        float(shaping(torch.tensor(log(GAMMA))))
        == pytest.approx(0.25)
        == float(log_probs.grad.max())
    )


def test_rewards_dealt_at_random_are_those_of_the_group_in_another_order() -> None:
    rewards = [0.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0]
    dealt = [objectives.dealt_at_random(rewards) for _ in range(4)]
    assert all(sorted(each) == sorted(group_advantages(rewards)) for each in dealt)
    assert len(set(map(tuple, dealt))) > 1
