"""Other ways to take part: training on stale text, and asking questions until enough groups are
informative.
"""

from contextlib import closing

import pytest
import torch

from protocol.messages import Round
from swarm_node.rollouts.groups import Generated
from swarm_node.settings import AsynchronousConfig, ModelConfig, RoundConfig
from swarm_node.settings.simulation import SimulationConfig
from swarm_node.simulation.participation import APART, DynamicSampling, LaggedNode
from tests.models import make_node, text_group, weights_of


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
    expected, reports = (
        reports_of(plain),
        reports_of(LaggedNode(lagged, lambda updates: updates + 1)),
    )
    assert [r.step for r in reports] == [r.step for r in expected]
    assert all(map(torch.equal, weights_of(plain), weights_of(lagged)))


class Asking:
    """A node with `informative` informative groups in every batch of two."""

    def __init__(self, informative: int) -> None:
        self.config, self.asked, self._informative = (
            RoundConfig(local_groups=4),
            list[Round](),
            informative,
        )

    def generate(self, now: Round) -> Generated:
        self.asked.append(now)
        groups = [
            text_group([float(k < self._informative), 0.0], ["a", "b"], index=k) for k in range(2)
        ]
        return Generated(Round(now % APART), groups, {"slow question": 1}, {"generate": 1.0})


@pytest.mark.parametrize(("informative", "batches"), [(2, 2), (1, 4), (0, 4)])
def test_a_lone_node_asks_on_until_its_groups_are_informative_or_its_budget_ends(
    informative, batches
) -> None:
    node = Asking(informative)
    produced = DynamicSampling(node).produce(Round(7))  # type: ignore[arg-type]
    assert node.asked == [Round(7 + batch * APART) for batch in range(batches)]
    assert (produced.round, len(produced.groups), produced.skipped, produced.seconds) == (
        *(7, 2 * batches),
        *({"slow question": batches}, {"generate": float(batches)}),
    )


def test_simulate_takes_the_asynchronous_options() -> None:
    from swarm_node.simulation.engines.population import LivePopulation

    how = AsynchronousConfig(enabled=True, max_staleness=2)
    config = SimulationConfig(nodes=1, model=ModelConfig(name="dense"), asynchronous=how)
    with closing(LivePopulation(config)) as population:
        assert isinstance(population.make(0), LaggedNode)
    with closing(
        LivePopulation(config.model_copy(update={"arms": ("8/0:dynamic_sampling",)}))
    ) as population:
        assert isinstance(population.make(0), DynamicSampling)
