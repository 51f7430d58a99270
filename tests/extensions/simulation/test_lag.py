"""Simulated staleness: text that is so many updates old when it is trained on."""

from contextlib import closing

import pytest
import torch

from protocol.messages import Round
from swarm_node.extensions.simulation.lag import LaggedNode
from swarm_node.extensions.simulation.settings import SimulationConfig
from swarm_node.settings import AsynchronousConfig, ModelConfig
from tests.models import make_node, model_of, weights_of


def reports_of(member, rounds: int = 8):
    return [member.consume(member.produce(Round(now))) for now in range(rounds)]


@pytest.mark.slow
@pytest.mark.parametrize("staleness", [1, 3])
def test_text_is_as_old_as_allowed_and_every_round_is_trained_on_once(staleness) -> None:
    node = make_node(external=0, questions=4, local=4)
    reports = reports_of(LaggedNode(node, lambda updates: updates + staleness + 1))
    assert [report.round for report in reports] == list(range(8))
    expected = [float(min(number, staleness)) for number in range(8)]
    assert [r.step.staleness for r in reports if r.step.optimizer_steps] == [
        value for value, r in zip(expected, reports, strict=True) if r.step.optimizer_steps
    ]
    assert sum(r.step.optimizer_steps for r in reports) >= 6


@pytest.mark.slow
def test_without_staleness_it_is_the_node_itself() -> None:
    plain, lagged = make_node(external=0), make_node(external=0)
    expected, reports = reports_of(plain), reports_of(LaggedNode(lagged, lambda updates: updates + 1))
    assert [r.step for r in reports] == [r.step for r in expected]
    assert all(map(torch.equal, weights_of(model_of(plain)), weights_of(model_of(lagged))))


def test_simulate_takes_the_asynchronous_options() -> None:
    from swarm_node.extensions.simulation.engines.population import LivePopulation

    how = AsynchronousConfig(enabled=True, max_staleness=2)
    config = SimulationConfig(nodes=1, model=ModelConfig(name="dense"), asynchronous=how)
    with closing(LivePopulation(config)) as population:
        assert isinstance(population.join(0), LaggedNode)
