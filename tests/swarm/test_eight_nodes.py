"""A small swarm of eight nodes, as in the paper. The same seed gives the same curve, bit for bit."""

from random import Random

import pytest
import torch

from swarm_node.network.in_memory import MemorySwarm
from tests.models import considered, make_swarm, model_of, run_together, weights_of

ROUNDS = 4


def run(seed: int, loss: float = 0.0):
    nodes = make_swarm(MemorySwarm(Random(seed), loss=loss), 8, seed=seed, external=4)
    return nodes, run_together(nodes, ROUNDS)


@pytest.mark.slow
def test_all_eight_train_on_local_groups_and_on_external_ones_of_many_authors() -> None:
    nodes, reports = run(0)
    assert all(report.step.optimizer_steps == 1 for row in reports for report in row)
    assert all(report.external_informative == 4 for row in reports for report in row)
    assert all(report.local_groups == 2 for row in reports for report in row)
    assert all(report.rejected == {} for row in reports for report in row)
    assert all(report.pool_size <= 7 * 3 * 3 for report in reports[-1])
    authors: set[str] = set()
    for now in range(ROUNDS, 2 * ROUNDS):
        own = [node.produce(now) for node in nodes]
        authors |= {group.author for group in considered(nodes[0], own[0]).external}
    assert len(authors) >= 5


@pytest.mark.slow
def test_the_same_seed_gives_the_same_curve_and_the_same_weights() -> None:
    (first, curve), (again, same), (_, other) = run(1, 0.3), run(1, 0.3), run(2, 0.3)
    assert curve == same
    assert curve != other
    for a, b in zip(first, again, strict=True):
        assert all(map(torch.equal, weights_of(model_of(a)), weights_of(model_of(b))))
    assert not all(map(torch.equal, weights_of(model_of(first[0])), weights_of(model_of(first[1]))))
