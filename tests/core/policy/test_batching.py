"""Micro-batches by token budget, against the rule they follow."""

from hypothesis import given
from hypothesis import strategies as st

from swarm_node.policy.batch import TokenGroup, dynamic_batches, unrecorded

SHAPES = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 60)), max_size=40)


def row(prompt: int, completion: int) -> TokenGroup:
    return unrecorded([1] * prompt, [[1] * completion])


def of_length(*lengths: int) -> list[TokenGroup]:
    return [row(1, length) for length in lengths]  # the last token of a completion is not fed


@given(SHAPES, st.integers(1, 200), st.integers(1, 5), st.booleans())
def test_every_row_is_in_one_batch_and_batches_keep_to_the_budget(shapes, budget, fewest, pads) -> None:
    rows = [row(*shape) for shape in shapes]
    batches = dynamic_batches(rows, budget, fewest=fewest, pads=pads)
    assert sorted(index for batch in batches for index in batch) == list(range(len(rows)))
    assert len(batches) >= min(fewest, len(rows))
    for batch in batches:
        padded = max(len(rows[i].prompt_ids) for i in batch) + max(rows[i].fed for i in batch)
        size = len(batch) * padded if pads else sum(rows[i].length for i in batch)
        assert len(batch) == 1 or size <= budget


def test_a_row_joins_the_batch_with_room_that_has_the_fewest() -> None:
    # 9 opens a batch, 6 would make two by 9: 18 of 12; 5 joins the 6, two by 6; then neither has room for a third
    assert dynamic_batches(of_length(5, 9, 6, 2), 12) == [[1], [2, 0], [3]]
    assert dynamic_batches(of_length(4, 4, 4, 4), 12) == [[0, 1, 2], [3]]
    assert dynamic_batches(of_length(4, 4, 4, 4), 12, fewest=2) == [[0, 2], [1, 3]]  # even, where there must be two


def test_one_that_is_longer_than_the_budget_goes_alone() -> None:
    assert dynamic_batches(of_length(50, 3), 10) == [[0], [1]]
