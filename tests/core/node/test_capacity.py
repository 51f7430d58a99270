"""The staleness bound, under every schedule of starting, finishing, losing and training."""

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm_node.node.asynchronous import Capacity

ACTIONS = st.lists(st.sampled_from(["start", "start", "finish", "finish", "lose", "train"]), max_size=200)
SHAPE = st.tuples(st.integers(1, 5), st.integers(0, 6), st.integers(1, 20))


@given(SHAPE, ACTIONS)
def test_whatever_the_schedule_nothing_is_older_than_allowed_and_nothing_is_used_twice(shape, actions) -> None:
    batch, max_staleness, max_concurrent = shape
    capacity = Capacity(batch, max_staleness, max_concurrent)
    names = iter(range(10**6))
    running: deque[tuple[int, int]] = deque()  # name, version that generates it
    waiting: deque[tuple[int, int]] = deque()
    trained: list[int] = []
    for action in actions:
        if action == "start" and capacity.free():
            capacity.start(1)
            running.append((next(names), capacity.version))
        elif action == "finish" and running:
            capacity.finish(1)
            waiting.append(running.popleft())
        elif action == "lose" and running:  # started again under the same name
            capacity.lose(1)
            name, _ = running.popleft()
            assert capacity.free() >= 1
            capacity.start(1)
            running.appendleft((name, capacity.version))
        elif action == "train" and len(waiting) >= batch:
            for _ in range(batch):
                name, written_by = waiting.popleft()
                assert 0 <= capacity.version - written_by <= max_staleness
                trained.append(name)
            capacity.update()
        assert capacity.running == len(running) <= max_concurrent
        assert capacity.accepted + capacity.running <= (max_staleness + capacity.version + 1) * batch
        assert capacity.accepted == len(trained) + len(waiting)
    assert trained == list(range(len(trained)))  # each once, the oldest first


@given(SHAPE, ACTIONS)
def test_room_is_that_of_the_papers_rule_for_the_next_number(shape, actions) -> None:
    """floor((N - 1) / B) <= version + eta for the number N that would start next, unless too many run."""
    batch, max_staleness, max_concurrent = shape
    capacity = Capacity(batch, max_staleness, max_concurrent)
    for action in actions:
        number = capacity.accepted + capacity.running + 1
        admitted = (number - 1) // batch <= capacity.version + max_staleness and capacity.running < max_concurrent
        assert (capacity.free() > 0) == admitted
        if action == "start" and admitted:
            capacity.start(1)
        elif action == "finish" and capacity.running:
            capacity.finish(1)
        elif action == "train" and capacity.accepted >= (capacity.version + 1) * batch:
            capacity.update()


def test_without_staleness_writing_and_training_alternate() -> None:
    capacity = Capacity(batch=3, max_staleness=0, max_concurrent=99)
    for _ in range(4):
        assert capacity.free() == 3
        capacity.start(3)
        assert capacity.free() == 0
        capacity.finish(3)
        assert capacity.free() == 0
        capacity.update()


@pytest.mark.parametrize(
    "broken", [lambda c: c.start(3), lambda c: c.finish(1), lambda c: c.lose(1), lambda c: c.update()]
)
def test_counting_that_cannot_be_is_our_bug(broken) -> None:
    with pytest.raises(ValueError):
        broken(Capacity(batch=2, max_staleness=0, max_concurrent=8))
