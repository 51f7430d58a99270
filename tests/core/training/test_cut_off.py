"""An update that a signal cuts off, or that would wreck the weights, leaves those before it."""

from collections.abc import Iterator

import pytest
import torch

from swarm_node.common.errors import Diverged
from swarm_node.settings import GenerationConfig, TrainingConfig
from swarm_node.training.objectives import Bounds, Terms, TokenLoss, decoupled
from swarm_node.training.trainer import GrpoTrainer
from tests.models import LESSON, tiny_policy, weights_of


class GivenUp(BaseException):
    """Stands for the signal that gives up a round: no code that handles errors catches it."""


class Objective:
    """The usual objective. It gives up the update in the loss of this number, counted from now."""

    def __init__(self) -> None:
        self.left: Iterator[int] = iter(())

    def give_up_in(self, losses: int) -> None:
        self.left = iter(range(losses - 1, -1, -1))

    def __call__(self, terms: Terms, bounds: Bounds) -> TokenLoss:
        if next(self.left, None) == 0:
            raise GivenUp
        return decoupled(terms, bounds)


def optimiser_state(trainer: GrpoTrainer) -> list[torch.Tensor]:
    return [
        torch.as_tensor(value).clone()
        for parameter in trainer.parameters
        for value in trainer.optimizer.state[parameter].values()
    ]


# A token budget of 10 cuts the lesson into several micro-batches
@pytest.mark.parametrize(("iterations", "losses"), [(1, 1), (1, 2), (3, 2), (3, 3), (3, 5)])
def test_weights_and_optimiser_of_an_update_that_is_given_up_are_those_before_it(
    iterations: int, losses: int
) -> None:
    policy, objective = tiny_policy(), Objective()
    config = TrainingConfig(learning_rate=1e-5, num_iterations=iterations, token_budget=10)
    trainer = GrpoTrainer(policy, config, GenerationConfig(), objective=objective)
    assert trainer.update([LESSON]).optimizer_steps == iterations
    trainer.settle()
    weights, state, steps = weights_of(policy.model), optimiser_state(trainer), trainer.steps
    objective.give_up_in(losses)
    with pytest.raises(GivenUp):
        trainer.update([LESSON])
    assert all(map(torch.equal, weights, weights_of(policy.model)))
    assert all(map(torch.equal, state, optimiser_state(trainer))) and len(state) > 0
    assert trainer.steps == steps and not trainer.stepping


def test_after_its_last_step_an_update_may_not_be_given_up_until_its_round_is_counted() -> None:
    trainer = GrpoTrainer(tiny_policy(), TrainingConfig(), GenerationConfig())
    assert not trainer.stepping
    trainer.update([LESSON])
    assert trainer.stepping
    trainer.settle()
    assert not trainer.stepping


@pytest.mark.parametrize("rate", [1.0, 1000.0, 1e9])
def test_a_rate_that_would_wreck_the_model_takes_no_step_and_says_so(rate: float) -> None:
    policy = tiny_policy()
    weights = weights_of(policy.model)
    trainer = GrpoTrainer(policy, TrainingConfig(learning_rate=rate), GenerationConfig())
    with pytest.raises(Diverged, match=r"learning_rate .* times their size in one step") as raised:
        trainer.update([LESSON])
    assert raised.value.sound and "\n" not in str(raised.value)
    assert all(map(torch.equal, weights, weights_of(policy.model)))


@pytest.mark.parametrize("rate", [1e-6, 3e-4, 1e-2])
def test_a_rate_that_people_use_takes_its_step(rate: float) -> None:
    trainer = GrpoTrainer(tiny_policy(), TrainingConfig(learning_rate=rate), GenerationConfig())
    assert trainer.update([LESSON]).optimizer_steps == 1


def test_weights_that_are_no_numbers_are_seen() -> None:
    policy = tiny_policy()
    trainer = GrpoTrainer(policy, TrainingConfig(), GenerationConfig())
    assert trainer.is_finite()
    trainer.parameters[-1].data.view(-1)[0] = float("nan")
    assert not trainer.is_finite()
