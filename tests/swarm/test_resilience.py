"""Losses, delays, deaths and late arrivals cost only what was lost: no node waits for another."""

from random import Random

import pytest

from protocol.messages import Round
from swarm_node.network.in_memory import MemorySwarm
from tests.models import join, make_node, make_swarm, run_together


def external(reports, node: int) -> list[int]:
    return [row[node].external_informative for row in reports]


def trained(reports) -> bool:
    return all(report.step.optimizer_steps == 1 for row in reports for report in row)


@pytest.mark.slow
def test_with_half_of_all_messages_lost_everybody_still_trains_and_collects() -> None:
    nodes = make_swarm(MemorySwarm(Random(0), loss=0.5), 3, external=6)
    lossless = make_swarm(MemorySwarm(Random(0)), 3, external=6)
    lossy, whole = run_together(nodes, 5), run_together(lossless, 5)
    assert trained(lossy)
    for node in range(3):
        assert 5 < sum(external(lossy, node)) < sum(external(whole, node))


def test_delayed_messages_are_used_when_they_come() -> None:
    nodes = make_swarm(MemorySwarm(Random(0), delay=2), 2, external=9)
    reports = run_together(nodes, 5)
    for node in (0, 1):
        assert external(reports, node)[:2] == [0, 0]
        assert all(count > 0 for count in external(reports, node)[2:])


def test_a_death_stops_nobody_and_the_dead_are_forgotten() -> None:
    swarm = MemorySwarm(Random(0))
    nodes = make_swarm(swarm, 3, external=2)
    run_together(nodes, 2)
    swarm.leave(nodes[2].peer_id)
    alive = nodes[:2]
    reports = run_together(alive, 5, start=2)
    assert trained(reports)
    for node in alive:
        assert nodes[2].peer_id not in {group.author for group in node.pool.candidates()}


def test_one_that_left_works_on_alone_and_one_that_joins_late_is_received_at_once() -> None:
    swarm = MemorySwarm(Random(0))
    nodes = make_swarm(swarm, 2, external=4)
    run_together(nodes, 2)
    swarm.leave(nodes[1].peer_id)
    gone = [nodes[1].run_round(Round(now)) for now in (2, 3, 4, 5, 6)]
    assert gone[-1].step.optimizer_steps == 1
    assert gone[-1].external_informative == 0
    late = make_node(2, join(swarm, 2), external=4)
    reports = run_together([nodes[0], late], 3, start=7)
    assert trained(reports)
    assert all(sum(external(reports, node)) > 0 for node in (0, 1))


def test_a_slow_node_trains_on_what_gathered_meanwhile_within_its_bounds() -> None:
    swarm = MemorySwarm(Random(0))
    fast, slow = make_swarm(swarm, 2, external=2, most_waiting=5)
    for now in range(6):
        fast.run_round(Round(now))
    report = slow.run_round(Round(6))
    assert report.external_informative == 2
    assert len(slow.pool) <= 5
