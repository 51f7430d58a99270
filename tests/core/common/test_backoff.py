"""Waiting after failures: doubled, bounded, and spread."""

from random import Random

import pytest

from swarm_node.common.backoff import backoff, jittered


def test_it_doubles_up_to_the_bound() -> None:
    assert [backoff(failures, 0.5, 3.0) for failures in range(5)] == [0.5, 1.0, 2.0, 3.0, 3.0]


@pytest.mark.parametrize(("failures", "bound"), [(0, 2.0), (64, 60.0), (1024, 60.0), (10**9, 60.0)])
def test_however_often_it_failed_the_bound_holds(failures: int, bound: float) -> None:
    assert backoff(failures, 5.0, bound) == bound


def test_jitter_takes_up_to_half() -> None:
    random = Random(1)
    waits = [jittered(10.0, random) for _ in range(1000)]
    assert 5.0 <= min(waits) < 5.1 and 9.9 < max(waits) <= 10.0
