"""Whole nodes exchange groups through real bytes: two with different models, some that leave or
come late, and eight as in the paper.
"""

from random import Random

import pytest

from protocol.messages import Round
from swarm_node.network.in_memory import MemorySwarm
from tests.models import (
    IDENTITIES,
    MANY_EOS,
    join,
    make_node,
    make_swarm,
    run_together,
    text_group,
    tiny_policy,
)

ROUNDS = 4  # of eight nodes


def test_a_node_can_train_on_external_groups_alone() -> None:
    def rewards(external: int) -> list[float]:
        swarm = MemorySwarm(Random(0))
        teacher = join(swarm, 1)
        policy = tiny_policy("Qwen2", 5, eos=MANY_EOS)
        node = make_node(
            0, join(swarm, 0), local=0, external=external, policy=policy, learning_rate=1e-2
        )
        seen = []
        for now in map(Round, range(20)):
            teacher.publish([lesson(now, index) for index in range(4)], now)
            seen.append(node.run_round(now).reward)
        return seen

    def lesson(now: int, index: int):
        texts = ["7", "7", chr(97 + (now + index) % 26), chr(65 + (3 * now + index) % 26)]
        return text_group(
            [0.0] * 4, texts, author=IDENTITIES[1].peer_id, round=now, index=index
        ).message()

    alone, taught = rewards(0), rewards(4)
    assert alone[0] == taught[0] and sum(alone[-5:]) / 5 < 0.6 and sum(taught[-5:]) / 5 > 0.9


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


def external(reports, node: int) -> list[int]:
    return [row[node].external_informative for row in reports]


def trained(reports) -> bool:
    return all(report.step.optimizer_steps == 1 for row in reports for report in row)


def test_a_death_stops_nobody_and_the_dead_are_forgotten() -> None:
    swarm = MemorySwarm(Random(0))
    nodes = make_swarm(3, swarm, external=2)
    run_together(nodes, 2)
    swarm.leave(nodes[2].peer_id)
    alive = nodes[:2]
    reports = run_together(alive, 5, start=2)
    assert trained(reports)
    for node in alive:
        assert nodes[2].peer_id not in {group.author for group in node.inbox.candidates()}


def test_one_that_left_works_on_alone_and_one_that_joins_late_is_received_at_once() -> None:
    swarm = MemorySwarm(Random(0))
    nodes = make_swarm(2, swarm, external=4)
    run_together(nodes, 2)
    swarm.leave(nodes[1].peer_id)
    gone = [nodes[1].run_round(Round(now)) for now in (2, 3, 4, 5, 6)]
    assert gone[-1].step.optimizer_steps == 1 and gone[-1].external_informative == 0
    late = make_node(2, join(swarm, 2), external=4)
    reports = run_together([nodes[0], late], 3, start=7)
    assert trained(reports) and all(sum(external(reports, node)) > 0 for node in (0, 1))


def run_eight(seed: int, loss: float = 0.0):
    nodes = make_swarm(8, MemorySwarm(Random(seed), loss=loss), seed=seed, external=4)
    return nodes, run_together(nodes, ROUNDS)


@pytest.mark.slow
def test_all_eight_train_on_local_groups_and_on_external_ones_of_many_authors() -> None:
    nodes, reports = run_eight(0)
    assert all(report.step.optimizer_steps == 1 for row in reports for report in row)
    assert all(report.external_informative == 4 for row in reports for report in row)
    assert all(report.local_groups == 2 for row in reports for report in row)
    assert all(report.rejected == {} for row in reports for report in row)
    assert all(report.pool_size <= 7 * 3 * 3 for report in reports[-1])
    authors: set[str] = set()
    for now in range(ROUNDS, 2 * ROUNDS):
        own = [node.produce(now) for node in nodes]
        authors |= {group.author for group in nodes[0].select(own[0]).external}
    assert len(authors) >= 5
