"""The staleness bound, under every schedule of starting, finishing, losing and training."""

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm_node.node.asynchronous import Capacity

ACTIONS = st.lists(
    st.sampled_from(["start", "start", "finish", "finish", "lose", "train"]), max_size=200
)
SHAPE = st.tuples(st.integers(0, 6), st.integers(1, 20))


@given(SHAPE, ACTIONS)
def test_whatever_the_schedule_nothing_is_older_than_allowed_and_nothing_is_used_twice(
    shape, actions
) -> None:
    max_staleness, max_concurrent = shape
    capacity = Capacity(max_staleness, max_concurrent)
    names = iter(range(10**6))
    running: deque[tuple[int, int]] = deque()  # name, version that generates it
    waiting: deque[tuple[int, int]] = deque()
    trained: list[int] = []
    for action in actions:
        if action == "start" and capacity.free():
            capacity.start()
            running.append((next(names), capacity.version))
        elif action == "finish" and running:
            capacity.finish()
            waiting.append(running.popleft())
        elif action == "lose" and running:  # started again under the same name
            capacity.lose(1)
            name, _ = running.popleft()
            assert capacity.free() >= 1
            capacity.start()
            running.appendleft((name, capacity.version))
        elif action == "train" and waiting:
            name, written_by = waiting.popleft()
            assert 0 <= capacity.version - written_by <= max_staleness
            trained.append(name)
            capacity.update()
        assert capacity.running == len(running) <= max_concurrent
        assert capacity.accepted + capacity.running <= max_staleness + capacity.version + 1
        assert capacity.accepted == len(trained) + len(waiting)
    assert trained == list(range(len(trained)))  # each once, the oldest first


@given(SHAPE, ACTIONS)
def test_room_is_that_of_the_papers_rule_for_the_next_number(shape, actions) -> None:
    """N - 1 <= version + eta for the number N that would start next, unless too many run."""
    max_staleness, max_concurrent = shape
    capacity = Capacity(max_staleness, max_concurrent)
    for action in actions:
        number = capacity.accepted + capacity.running + 1
        admitted = (
            number - 1 <= capacity.version + max_staleness and capacity.running < max_concurrent
        )
        assert (capacity.free() > 0) == admitted
        if action == "start" and admitted:
            capacity.start()
        elif action == "finish" and capacity.running:
            capacity.finish()
        elif action == "train" and capacity.accepted > capacity.version:
            capacity.update()


@pytest.mark.parametrize(
    "broken", [Capacity.start, Capacity.finish, lambda c: c.lose(1), Capacity.update]
)
def test_counting_that_cannot_be_is_our_bug(broken) -> None:
    with pytest.raises(ValueError):
        broken(Capacity(max_staleness=0, max_concurrent=0))
