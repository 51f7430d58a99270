"""Two whole nodes with different models exchange groups, through real bytes."""

from random import Random

import pytest

from protocol.messages import Round
from swarm_node.network.in_memory import MemorySwarm
from swarm_node.rollouts.groups import Catalogue
from tests.models import (
    IDENTITIES,
    MANY_EOS,
    Digits,
    join,
    make_node,
    make_swarm,
    run_together,
    text_group,
    tiny_policy,
)


def test_a_node_can_train_on_external_groups_alone() -> None:
    def rewards(external: int) -> list[float]:
        swarm = MemorySwarm(Random(0))
        teacher = join(swarm, 1)
        policy = tiny_policy("Qwen2", 5, eos=MANY_EOS)
        node = make_node(0, join(swarm, 0), local=0, external=external, policy=policy, learning_rate=1e-2)
        seen = []
        for now in map(Round, range(20)):
            teacher.publish([lesson(now, index) for index in range(4)], now)
            seen.append(node.run_round(now).reward)
        return seen

    def lesson(now: int, index: int):
        texts = ["7", "7", chr(97 + (now + index) % 26), chr(65 + (3 * now + index) % 26)]
        return text_group([0.0] * 4, texts, author=IDENTITIES[1].peer_id, round=now, index=index).group

    alone, taught = rewards(0), rewards(4)
    assert alone[0] == taught[0]
    assert sum(alone[-5:]) / 5 < 0.6
    assert sum(taught[-5:]) / 5 > 0.9


def test_nodes_with_different_models_and_tokenizers_share() -> None:
    swarm = MemorySwarm(Random(0))
    families = ("Llama", "GPT2")
    nodes = [
        make_node(k, join(swarm, k), policy=tiny_policy(family, k, eos=MANY_EOS, chat=bool(k)))
        for k, family in enumerate(families)
    ]
    reports = run_together(nodes, 4)
    assert all(sum(row[k].external_informative for row in reports) > 0 for k in (0, 1))
    assert all(report.step.optimizer_steps == 1 for row in reports for report in row)


def test_groups_about_questions_that_the_other_does_not_know_are_refused_and_counted() -> None:
    class First(Catalogue):
        def knows(self, question):
            return super().knows(question) and question.index == 0

    class Narrow(Digits):
        @property
        def catalogue(self):
            return First(super().catalogue.environments)

    swarm = MemorySwarm(Random(0))
    nodes = [make_node(0, join(swarm, 0)), make_node(1, join(swarm, 1, Narrow()), Narrow())]
    reports = run_together(nodes, 2)[-1]
    assert reports[0].rejected == {}
    assert reports[1].rejected == {"unknown question": 4}
    assert reports[1].step.optimizer_steps == 1


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_one_that_is_a_round_behind_still_receives_from_the_other(order) -> None:
    nodes = make_swarm(MemorySwarm(Random(0)), 2, external=4)
    external = {0: 0, 1: 0}
    for now in range(3):
        for k in order:
            external[k] += nodes[k].run_round(Round(now)).external_informative
    assert min(external.values()) > 0
