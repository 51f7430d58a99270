"""Samplers and objectives beside the plain ones: which groups they take, and how they weigh
tokens.
"""

import tomllib
from pathlib import Path

import torch

from swarm_node.common import loading
from swarm_node.rollouts.adaptive_sampler import AdaptiveSampler
from swarm_node.rollouts.groups import Group
from swarm_node.rollouts.sampler import UniformSampler
from swarm_node.training.objectives import Bounds, Terms, imitating
from tests import models
from tests.groups import external, scored
from tests.models import text_group

EVEN = (1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0)
NONE = (0.0,) * 8


def group(rewards, index=0, task="gcd", author="peer") -> Group:
    made = text_group(rewards, [str(k) for k in range(len(rewards))], author=author, index=index)
    question = made.question.model_copy(update={"dataset": task})
    return scored(made.message().model_copy(update={"question": question}), "?", tuple(rewards))


def select(sampler, groups, count, own=()):
    by_key = {(scored.author, scored.question): scored for scored in groups}
    asked = []

    def score(externals):
        asked.extend(externals)
        return [by_key[each.author, each.question] for each in externals]

    return models.select(sampler, [external(each) for each in groups], score, count, own=own)[
        0
    ], asked


def indices(selected):
    return sorted(scored.question.index for scored in selected)


def test_all_that_ship_are_registered_and_can_be_made():
    points = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"][
        "entry-points"
    ]
    made = {name: loading.load(place)() for name, place in points["swarm_node.samplers"].items()}
    assert type(made["uniform"]) is UniformSampler and len(made) > 1
    for name, sampler in made.items():
        selected, _ = select(sampler, [group(EVEN, k) for k in range(6)] + [group(NONE, 6)], 3)
        assert len(selected) <= 3 and all(scored.informative for scored in selected), name
        assert sampler.split(8, 0) == (8, 0), name  # a node that wants no external groups gets none


def test_local_informative_groups_go_first_and_external_ones_fill_up():
    sampler = AdaptiveSampler()
    for informative, split in ((0, (0, 8)), (3, (3, 5)), (9, (8, 0))):
        sampler.observe([group(EVEN, k) for k in range(informative)] + [group(NONE, 20)])
        assert sampler.split(4, 4) == split


def test_imitation_weighs_better_external_tokens_alike_and_leaves_local_ones() -> None:
    advantages, external = (
        torch.tensor([2.0, -2.0, 0.5, -0.5]),
        torch.tensor([False, False, True, True]),
    )
    log_probs = torch.full((4,), -1.0, requires_grad=True)
    same = log_probs.detach()
    terms = Terms(
        log_probs, same, same, torch.zeros(4), advantages, torch.full((4,), 0.25), external
    )
    imitating(terms, Bounds()).loss.backward()
    assert log_probs.grad is not None and log_probs.grad.tolist() == [-0.5, 0.5, -0.25, 0.0]
