"""Samplers and objectives beside the plain ones: which groups they take, and how they weigh
tokens.
"""

import tomllib
from pathlib import Path

import pytest
import torch

from protocol.messages import PeerId, Round
from swarm_node.common import loading
from swarm_node.rollouts.adaptive_sampler import AdaptiveSampler
from swarm_node.rollouts.groups import Generated, Group, Skipped
from swarm_node.rollouts.inbox import Inbox, PeerRecord
from swarm_node.rollouts.sampler import Seen, UniformSampler, as_sampler
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


class Noting(UniformSampler):
    """Notes what it is told."""

    def __init__(self) -> None:
        self.told: list[Seen] = []

    def begin(self, seen: Seen) -> None:
        self.told.append(seen)


def test_a_sampler_is_told_of_the_round_its_groups_and_what_became_of_each_peer_s_groups() -> None:
    sampler, inbox, mine = Noting(), Inbox(PeerId("me")), [group(EVEN, author="me")]
    node = models.selecting(
        sampler, inbox, lambda groups: [each.scored(EVEN) for each in groups], 1
    )
    inbox.arrive([external(group(EVEN, k)) for k in range(2)], Round(0))
    for now in range(2):
        node.select(Generated(Round(now), mine, {}, {}))
    assert [(seen.round, list(seen.local)) for seen in sampler.told] == [(0, mine), (1, mine)]
    before, after = (seen.peers[PeerId("peer")] for seen in sampler.told)
    assert before == PeerRecord(arrived=2)
    assert after == PeerRecord(arrived=2, scored=1, informative=1, chosen=1, reward=0.5)


@pytest.mark.parametrize("reads", [True, False])
def test_a_sampler_that_reads_rewards_gets_candidates_with_rewards_and_only_those(reads) -> None:
    class Best(UniformSampler):
        reads_rewards = reads
        rewarded: list[bool]

        def order(self, candidates, rng):
            self.rewarded = [
                sample.reward is not None for each in candidates for sample in each.samples
            ]
            return list(candidates)

    def score(groups):
        return [
            Skipped("scoring failed") if each.question.index == 1 else each.scored(EVEN)
            for each in groups
        ]

    sampler, inbox = Best(), Inbox(PeerId("me"))
    inbox.arrive([external(group(EVEN, k)) for k in range(3)], Round(0))
    selection = models.selecting(sampler, inbox, score, 1).select(Generated(Round(0), [], {}, {}))
    assert sampler.rewarded == [reads] * 8 * (2 if reads else 3)
    assert selection.skipped == ({"scoring failed": 1} if reads else {})
    assert len(selection.external) == len(selection.considered) == 1


class Plain:
    """Written for version 0.2, without inheriting from a class of ours."""

    def __init__(self) -> None:
        self.saw = 0

    def observe(self, local):
        self.saw += len(local)

    def split(self, local, external):
        return local, external

    def order(self, candidates, rng):
        return tuple(reversed(candidates))

    def at_once(self, missing):
        return 1

    def choose(self, scored, count):
        return [each for each in scored if each.informative][:count]


def test_a_sampler_of_version_0_2_that_inherits_from_nothing_goes_on_working() -> None:
    plain = Plain()
    sampler = as_sampler(plain)
    assert as_sampler(sampler) is sampler
    taken, _ = select(sampler, [group(EVEN, k) for k in range(6)], 2, own=[group(EVEN, 9)])
    assert indices(taken) == [4, 5] and plain.saw == 1


def test_a_sampler_of_version_0_2_observes_the_local_groups() -> None:
    class Older(UniformSampler):
        def observe(self, local):
            self.local = local

    sampler, mine = Older(), [group(EVEN)]
    as_sampler(sampler).begin(Seen(Round(0), mine))
    assert sampler.local is mine and as_sampler(sampler) is sampler


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
