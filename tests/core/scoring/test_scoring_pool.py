"""Several scoring processes, real ones, some of them killed."""

from collections.abc import Callable, Sequence

import pytest

from swarm_node.rollouts.groups import Skipped
from swarm_node.scoring.client import Reply, Request, ScoringClient, ScoringPool, ScoringUnavailable
from tests.core.scoring.test_scoring_process import GOOD, HOSTILE, SCORES, VERSION, answers


def client(version: str = VERSION) -> ScoringClient:
    return ScoringClient(HOSTILE, version, time_limit=60.0, memory_limit=512)


def pool_of(workers: int, make: Callable[[], ScoringClient] = client) -> ScoringPool:
    return ScoringPool(make, workers)


@pytest.mark.parametrize("workers", [1, 2])
def test_replies_are_at_their_place_whatever_the_others_do(workers) -> None:
    pool = pool_of(workers)
    items = [answers(*GOOD, index=k) if k % 3 else answers("raise", index=k) for k in range(9)]
    expected = [SCORES if k % 3 else Skipped("scorer raised") for k in range(9)]
    assert pool.ask(items) == expected and pool.ask([]) == []
    pool.close()


class Counting(ScoringClient):
    """Counts the groups that it is asked to score."""

    asked = 0

    def _ask(self, items: Sequence[Request]) -> list[Reply]:
        self.asked += len(items)
        return super()._ask(items)


def test_a_group_that_cannot_be_scored_costs_its_time_once() -> None:
    clients: list[Counting] = []

    def counting() -> ScoringClient:
        clients.append(Counting(HOSTILE, VERSION, time_limit=60.0, memory_limit=512))
        return clients[-1]

    pool = pool_of(1, counting)
    assert pool.ask([answers("raise"), answers(*GOOD, index=1)]) == [
        Skipped("scorer raised"),
        SCORES,
    ]
    assert [client.asked for client in clients] == [2]
    pool.close()


def slow(index: int, seconds: float = 1.0) -> Request:
    return answers(*["tenth"] * round(10 * seconds), index=index)


@pytest.mark.slow
def test_slow_groups_are_scored_by_several_processes() -> None:
    pool = pool_of(2)
    assert pool.ask([slow(k, 0.5) for k in range(4)]) == [(1.0,) * 5] * 4
    assert len({scoring.pid for scoring in pool._clients}) == 2
    pool.close()


def test_a_scoring_process_that_cannot_start_is_told() -> None:
    pool = pool_of(2, lambda: client("another version"))
    with pytest.raises(ScoringUnavailable):
        pool.ask([answers(*GOOD), answers(*GOOD, index=1)])
    pool.close()
