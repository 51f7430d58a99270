"""Micro-batches by token budget, against the rule they follow."""

from hypothesis import given
from hypothesis import strategies as st

from swarm_node.algorithm.batching import dynamic_batches

LENGTHS = st.lists(st.integers(1, 60), max_size=40)


@given(LENGTHS, st.integers(1, 200), st.integers(1, 5))
def test_every_sequence_is_in_one_batch_and_batches_keep_to_the_budget(lengths, budget, fewest) -> None:
    batches = dynamic_batches(lengths, budget, fewest)
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    assert len(batches) >= min(fewest, len(lengths))
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(lengths[i] for i in batch) <= budget


def test_a_sequence_joins_the_batch_with_room_that_has_the_fewest() -> None:
    # 9 opens a batch; 6 would make 18; 5 joins the second (two by 6 is 12), since two by 9 is too many; so does no more
    assert dynamic_batches([5, 9, 6, 2], 12) == [[1], [2, 0], [3]]
    assert dynamic_batches([4, 4, 4, 4], 12) == [[0, 1, 2], [3]]
    assert dynamic_batches([4, 4, 4, 4], 12, fewest=2) == [[0, 2], [1, 3]]  # even, where there must be two anyway


def test_one_that_is_longer_than_the_budget_goes_alone() -> None:
    assert dynamic_batches([50, 3], 10) == [[0], [1]]
