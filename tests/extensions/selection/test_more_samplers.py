"""Samplers from the literature: what each takes first, and who can change that."""

import tomllib
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from swarm_node.common import loading
from swarm_node.extensions.selection.adaptive import AdaptiveSampler
from swarm_node.extensions.selection.diverse import DiverseSampler, spread
from swarm_node.extensions.selection.largest_advantage import LargestAdvantageSampler, largest
from swarm_node.extensions.selection.protective import ProtectiveSampler
from swarm_node.extensions.selection.ranking import MOST
from swarm_node.extensions.selection.uncertain import LEAST, UNKNOWN, UncertainSampler
from swarm_node.extensions.selection.variance_subset import KEPT, VarianceSubsetSampler, subset
from swarm_node.rollouts.groups import ScoredGroup
from swarm_node.rollouts.sampler import UniformSampler
from swarm_node.training.advantages import group_advantages, rare_first_advantages
from tests.groups import external
from tests.models import text_group

RARE = (1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
EVEN = (1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0)
NONE = (0.0,) * 8


def group(rewards, index=0, task="gcd", author="peer") -> ScoredGroup:
    made = text_group(rewards, [str(k) for k in range(len(rewards))], author=author, index=index)
    question = made.question.model_copy(update={"dataset": task})
    return ScoredGroup(made.group.model_copy(update={"question": question}), "?", tuple(rewards))


def select(sampler, groups, count, seed=0):
    by_key = {(scored.author, scored.question): scored for scored in groups}
    asked = []

    def score(externals):
        asked.extend(externals)
        return [by_key[each.author, each.question] for each in externals]

    return sampler.select(count, [external(scored.group) for scored in groups], score, Random(seed)), asked


def indices(selected):
    return sorted(scored.question.index for scored in selected.groups)


def test_all_that_ship_are_registered_and_can_be_made():
    points = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]["entry-points"]
    made = {name: loading.load(place)() for name, place in points["swarm_node.samplers"].items()}
    assert type(made["uniform"]) is UniformSampler and len(made) > 1
    for name, sampler in made.items():
        selected, _ = select(sampler, [group(EVEN, k) for k in range(6)] + [group(NONE, 6)], 3)
        assert len(selected.groups) <= 3 and all(scored.informative for scored in selected.groups), name
        assert sampler.split(8, 0) == (8, 0), name  # who trains alone stays alone


def test_the_rarest_success_comes_first_and_no_task_more_than_twice():
    groups = [
        group(EVEN, 0),
        group(RARE, 1),
        group(RARE, 2),
        group(RARE, 3),
        group(EVEN, 4, task="lcm"),
        group(NONE, 5),
    ]
    selected, asked = select(LargestAdvantageSampler(), groups, 3)
    # two of the three rare ones of gcd, then the only one of lcm
    assert len(set(indices(selected)) & {1, 2, 3}) == 2 and 4 in indices(selected)
    assert len(asked) == 6
    # what is informative and was not taken waits; the uninformative one goes
    left = {0, 1, 2, 3, 4, 5} - {each.question.index for each in selected.spent}
    assert len(left) == 2 and 5 not in left and 0 in left


def test_the_largest_advantage_is_that_of_training():
    for rewards in (RARE, EVEN, (0.2, 0.9, 0.5)):
        assert largest(group(rewards)) == pytest.approx(max(map(abs, group_advantages(rewards))))


def test_a_ranking_sampler_scores_no_more_than_its_bound_and_nothing_for_nothing():
    groups = [group(RARE, k) for k in range(MOST + 10)]
    assert len(select(LargestAdvantageSampler(), groups, 1)[1]) == MOST
    assert select(LargestAdvantageSampler(), groups, 0)[1] == []


def test_tasks_are_weighed_by_own_rates_alone():
    sampler = UncertainSampler()
    sampler.observe([group(EVEN, task="gcd"), group(NONE, task="lcm"), group((1.0, 1.0), task="sum")])
    config = group(EVEN).question.config_id
    weights = [sampler.weight((task, config)) for task in ("gcd", "lcm", "sum", "new")]
    assert weights == [0.25, LEAST, LEAST, UNKNOWN]
    groups = [group(EVEN, 0, task="gcd"), group(EVEN, 1, task="lcm")]
    first = Counter(indices(select(sampler, groups, 1, seed)[0])[0] for seed in range(300))
    # the weights are 0.25 and 0.02: gcd comes first in 93 of 100
    assert 260 < first[0] < 296


def test_no_more_are_scored_than_needed_where_the_order_is_known_before():
    for sampler in (UncertainSampler(), DiverseSampler()):
        selected, asked = select(sampler, [group(EVEN, k) for k in range(9)], 4)
        assert len(asked) == len(selected.groups) == len(selected.spent) == 4


def test_a_subset_has_the_largest_variance():
    assert [RARE[i] for i in subset(RARE, 4, Random(0))].count(1.0) == 1
    assert [EVEN[i] for i in subset(EVEN, 4, Random(0))].count(1.0) == 2
    graded = (0.0, 0.1, 0.5, 0.9, 1.0)
    assert [graded[i] for i in subset(graded, 2, Random(0))] == [0.0, 1.0]
    assert subset((0.0, 1.0), 4, Random(0)) == [0, 1]


def test_groups_are_cut_to_the_subset_with_their_completions():
    (cut,) = select(VarianceSubsetSampler(), [group(RARE)], 4)[0].groups
    assert len(cut.rewards) == len(cut.group.completions) == KEPT and sum(cut.rewards) == 1.0
    assert cut.group.completions[cut.rewards.index(1.0)].text == "0"


def test_authors_and_tasks_repeat_as_late_as_possible():
    loud = [external(group(EVEN, k, author="loud").group) for k in range(5)]
    quiet = [external(group(EVEN, 9, task="lcm", author="quiet").group)]
    assert {each.author for each in spread([*loud, *quiet])[:2]} == {"loud", "quiet"}


def test_local_informative_groups_go_first_and_external_ones_fill_up():
    sampler = AdaptiveSampler()
    for informative, split in ((0, (0, 8)), (3, (3, 5)), (9, (8, 0))):
        sampler.observe([group(EVEN, k) for k in range(informative)] + [group(NONE, 20)])
        assert sampler.split(4, 4) == split


def test_only_tasks_at_which_others_are_better_are_taken():
    sampler = ProtectiveSampler()
    sampler.observe([group(EVEN, task="gcd"), group(RARE, task="lcm")])
    better, worse, unknown = group(EVEN, 1, task="lcm"), group(RARE, 2, task="gcd"), group(RARE, 3, task="sum")
    assert indices(select(sampler, [better, worse, unknown], 8)[0]) == [1, 3]


def test_advantages_of_rare_success_weigh_more_than_those_of_frequent():
    often = (1.0,) * 7 + (0.0,)
    assert rare_first_advantages(RARE) == pytest.approx([7 / 8 * a for a in group_advantages(RARE)])
    assert rare_first_advantages(often) == pytest.approx([1 / 8 * a for a in group_advantages(often)])
    assert rare_first_advantages((1.0, 1.0)) == [0.0, 0.0]
