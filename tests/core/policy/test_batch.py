"""Batches: what is fed and predicted in rows and in a tree, and which groups share one. No layout
changes a number.
"""

from collections.abc import Iterable

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from swarm_node.policy.batch import (
    Batch,
    Row,
    TokenGroup,
    build_rows,
    build_tree,
    dynamic_batches,
    micro_batches,
)
from swarm_node.policy.batch import unrecorded as new
from swarm_node.policy.tree_attention import MAX_LEVELS, grow
from tests.gradients import allowed
from tests.models import plain_log_probs, tiny_policy

CPU = torch.device("cpu")
PAD = 0
TOKEN = st.integers(1, 98)
SEQUENCE = st.lists(TOKEN, min_size=1, max_size=9)
FEW = st.lists(st.integers(1, 3), min_size=1, max_size=4)
ROW = st.builds(new, SEQUENCE, st.lists(SEQUENCE, min_size=1, max_size=4))
RELATED = st.lists(  # few tokens, so that many sequences begin alike
    st.builds(new, FEW, st.lists(FEW, min_size=1, max_size=4)), min_size=1, max_size=4
)
WORTH = st.sampled_from([1, 16])
PACKED = [
    [
        new([5, 6, 7], [[8, 9], [10], [11, 12, 13]]),
        new([20], [[21, 23], [22, 23]]),
        new([30, 31], [[32, 33, 34, 35]]),
    ],
    [new([5], [[6], [7], [8]])],
    [new([5, 6, 7, 8, 9, 10], [[11]])],
]
SHAPES = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 60)), max_size=40)


@pytest.fixture(scope="module")
def policy():
    return tiny_policy()


def ids_of(group: TokenGroup) -> list[list[int]]:
    return [row.ids for row in group.rows]


def log_probs(policy, batch: Batch) -> torch.Tensor:
    return torch.log_softmax(policy.logits(batch), -1).gather(1, batch.target_T[:, None])[:, 0]


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(packed=RELATED, worth=st.sampled_from([0, 1, 16]))
def test_both_layouts_give_the_log_probs_of_unpadded_forwards(policy, packed, worth) -> None:
    with torch.no_grad():
        truth = torch.cat(
            [plain_log_probs(policy.model, r.prompt_ids, c) for r in packed for c in ids_of(r)]
        )
        batch = build_tree(packed, CPU, worth) if worth else build_rows(packed, CPU)
        torch.testing.assert_close(log_probs(policy, batch), truth, atol=1e-5, rtol=1e-5)


@given(packed=RELATED, worth=st.sampled_from([0, 1, 16]))
def test_every_token_is_predicted_in_order_by_the_token_before_it(packed, worth) -> None:
    batch = build_tree(packed, CPU, worth) if worth else build_rows(packed, CPU)
    assert batch.target_T.tolist() == [token for row in packed for c in ids_of(row) for token in c]
    before = [fed for row in packed for c in ids_of(row) for fed in (row.prompt_ids[-1], *c[:-1])]
    positions = [
        len(row.prompt_ids) - 1 + j for row in packed for c in ids_of(row) for j in range(len(c))
    ]
    for values, expected in ((batch.ids_RL, before), (batch.positions_RL, positions)):
        assert (
            values[:, -batch.keep :].flatten()[batch.columns_U][batch.source_T].tolist() == expected
        )


@given(packed=st.lists(ROW, min_size=1, max_size=5))
def test_no_pad_sits_between_a_prompt_and_its_completion_or_is_seen(packed) -> None:
    batch = build_rows(packed, CPU)
    pairs = [(row.prompt_ids, completion) for row in packed for completion in ids_of(row)]
    for (prompt, completion), ids, seen in zip(
        pairs, batch.ids_RL.tolist(), batch.mask.bool(), strict=True
    ):
        columns = seen.nonzero()[:, 0].tolist()
        assert columns == list(range(columns[0], columns[-1] + 1))
        assert [ids[column] for column in columns] == [*prompt, *completion[:-1]]


@given(st.lists(ROW, min_size=1, max_size=20), st.integers(1, 400))
def test_micro_batches_hold_every_row_once_and_keep_to_the_budget(packed, budget) -> None:
    packed = [piece for group in packed for piece in group.pieces(0)]
    batches = list(micro_batches(packed, budget))
    assert sorted(index for batch in numbers(packed, batches) for index in batch) == list(
        range(len(packed))
    )
    for batch in batches:
        size = build_rows(batch, CPU).ids_RL.numel()
        assert size <= budget or len(batch) == 1


def test_a_long_prompt_and_a_long_completion_do_not_share_a_batch_that_neither_fills() -> None:
    long_prompt, long_completion = new([5] * 100, [[6] * 10]), new([5] * 10, [[6] * 90])
    assert len(list(micro_batches([long_prompt, long_completion], 220))) == 2


@given(ROW, st.integers(0, 40))
@example(new([1], [[2], [3], [4]]), 0)
def test_a_split_row_keeps_its_completions_in_order_and_within_the_width(row, columns) -> None:
    pieces = row.pieces(columns)
    assert [ids for piece in pieces for ids in ids_of(piece)] == ids_of(row)
    assert all(piece.prompt_ids == row.prompt_ids for piece in pieces)
    assert all(len(piece.rows) == 1 or piece.length <= columns for piece in pieces)


def test_a_few_micro_batches_do_not_waste_the_budget() -> None:
    packed = [new([5] * 10, [[6] * 11])] * 16  # 20 columns each
    assert [len(batch) for batch in micro_batches(packed, 160)] == [8, 8]


@pytest.mark.slow
@pytest.mark.parametrize("worth", [1, 16])
@pytest.mark.parametrize("family", ["Llama", "Qwen3", "GPT2", "OPT"])
@pytest.mark.parametrize(
    "packed",
    [
        *PACKED,
        [new([*range(1, 60), k], [list(range(j, j + 20)) for j in range(8)]) for k in (1, 2, 3)],
    ],
    ids=["groups of different size", "single tokens", "one row", "prompts that share shots"],
)
def test_gradients_equal_the_padded_ones(family, packed, worth) -> None:
    policy = tiny_policy(family)

    def gradients(batch) -> list[torch.Tensor]:
        policy.model.zero_grad()
        values = log_probs(policy, batch)
        (values * torch.linspace(-1, 1, len(values)).sin()).mean().backward()
        return [p.grad.clone() for p in policy.model.parameters() if p.grad is not None]

    ours, theirs = gradients(build_tree(packed, CPU, worth)), gradients(build_rows(packed, CPU))
    largest = max(float(gradient.abs().max()) for gradient in theirs)
    assert largest > 1e-2
    torch.testing.assert_close(ours, theirs, atol=1e-5 * largest, rtol=1e-5)


@pytest.mark.slow
@given(packed=RELATED, worth=WORTH)
def test_a_column_sees_what_its_sequence_begins_with_and_nothing_else(packed, worth) -> None:
    batch = build_tree(packed, CPU, worth)
    seen, source, ids = allowed(batch), batch.columns_U[batch.source_T].tolist(), batch.ids_RL[0]
    for prompt, completion in ((row.prompt_ids, c) for row in packed for c in ids_of(row)):
        own, source = source[: len(completion)], source[len(completion) :]
        for number, column in enumerate(own):
            sees = seen[column].nonzero()[:, 0]
            assert ids[sees].tolist() == [*prompt, *completion[:number]]
            assert batch.positions_RL[0, sees].tolist() == list(range(len(prompt) + number))
            assert set(own[: number + 1]) <= set(sees.tolist())
    assert not source


@given(packed=RELATED)
def test_what_sequences_begin_with_stands_in_a_tree_once(packed) -> None:
    paths = [(*row.prompt_ids, *c[:-1]) for row in packed for c in ids_of(row)]
    assert len(grow(paths, CPU, 1)[0].ids_L) == len(
        {path[:end] for path in paths for end in range(1, len(path) + 1)}
    )
    deep = [[1] * end + [2] for end in range(1, 3 * MAX_LEVELS)]
    assert len(grow(deep, CPU, 1)[0].levels) == MAX_LEVELS


@pytest.mark.slow
@given(packed=RELATED, worth=WORTH)
def test_blocks_hold_every_column_once_and_the_rest_are_pads(packed, worth) -> None:
    batch = build_tree(packed, CPU, worth)
    blocks, total = batch.tree, batch.ids_RL.shape[1]
    assert blocks.columns_P[blocks.places_L].tolist() == list(range(total))
    assert sorted([*blocks.places_L.tolist(), *blocks.pads.tolist()]) == list(
        range(len(blocks.columns_P))
    )
    assert total <= sum(row.length for piece in packed for row in piece.pieces(0))


def test_a_batch_of_rows_end_to_end_is_filled_up_to_the_budget() -> None:
    packed = [new([5] * 10, [[6] * 11])] * 3 + [new([5] * 60, [[6] * 21])]
    assert [
        sum(group.length for group in batch) for batch in micro_batches(packed, 100, pads=False)
    ] == [100, 40]


def numbers(groups: list[TokenGroup], batches: Iterable[list[TokenGroup]]) -> list[list[int]]:
    """The positions of the groups of each batch."""
    position = {id(group): number for number, group in enumerate(groups)}
    return [[position[id(group)] for group in batch] for batch in batches]


def shaped(prompt: int, completion: int) -> TokenGroup:
    return new([1] * prompt, [[1] * completion])


def of_length(*lengths: int) -> list[TokenGroup]:
    return [shaped(1, length) for length in lengths]  # the last token of a completion is not fed


@given(SHAPES, st.integers(1, 200), st.integers(1, 5), st.booleans())
def test_every_row_is_in_one_batch_and_batches_keep_to_the_budget(
    shapes, budget, fewest, pads
) -> None:
    rows = [shaped(*shape) for shape in shapes]
    batches = dynamic_batches(rows, budget, fewest=fewest, pads=pads)
    assert sorted(index for batch in numbers(rows, batches) for index in batch) == list(
        range(len(rows))
    )
    assert len(batches) >= min(fewest, len(rows))
    for batch in batches:
        padded = max(len(row.prompt_ids) for row in batch) + max(row.fed for row in batch)
        size = len(batch) * padded if pads else sum(row.length for row in batch)
        assert len(batch) == 1 or size <= budget


def test_a_row_joins_the_batch_with_room_that_has_the_fewest() -> None:
    # budget 12: 9 opens a batch; 6 beside it would take 2 x 9 = 18; 5 joins 6, 2 x 6 = 12; 2 has
    # room in neither
    unequal, equal = of_length(5, 9, 6, 2), of_length(4, 4, 4, 4)
    assert numbers(unequal, dynamic_batches(unequal, 12)) == [[1], [2, 0], [3]]
    assert numbers(equal, dynamic_batches(equal, 12)) == [[0, 1, 2], [3]]
    # Even, where there must be two
    assert numbers(equal, dynamic_batches(equal, 12, fewest=2)) == [[0, 2], [1, 3]]


def test_what_tells_completions_apart_is_what_stands_behind_their_common_beginning() -> None:
    """Four completions begin with 7 8. The second has advantage 0. The third has no other token.
    Of the fourth an environment wrote 8 and 5.
    """
    first = Row(
        [7, 8, 9, 3],
        1.5,
        external=False,
        behaviour=[-0.1, -0.2, -0.3, -0.4],
        staleness=[1.0, 1.0, 2.0, 2.0],
    )
    second = Row([7, 8, 4], 0.0, external=True)
    third = Row([7, 8], -0.5, external=False, behaviour=[-1.0, -2.0], staleness=[0.0, 0.0])
    fourth = Row(
        [7, 8, 5, 6, 6],
        -1.0,
        external=False,
        behaviour=[-3.0, -4.0, -5.0],
        staleness=[3.0, 4.0, 5.0],
        mask=(True, False, False, True, True),
    )
    found = TokenGroup([1, 2], [first, second, third, fourth]).differences()
    assert [(row.ids, row.advantage) for row in found.rows] == [
        ([7, 8, 9, 3], 1.5),
        ([7, 8, 5, 6, 6], -1.0),
    ]
    assert [list(row.predicted) for row in found.rows] == [[2, 3], [3, 4]]
    assert [row.behaviour for row in found.rows] == [[-0.3, -0.4], [-4.0, -5.0]]
    assert [row.staleness for row in found.rows] == [[2.0, 2.0], [4.0, 5.0]]
    assert build_rows([found], CPU).target_T.tolist() == [9, 3, 6, 6]


def test_completions_that_begin_otherwise_lose_no_token() -> None:
    group = TokenGroup([1], [Row([7, 8], 1.0, external=True), Row([6, 8], -1.0, external=True)])
    assert [list(row.predicted) for row in group.differences().rows] == [[0, 1], [0, 1]]
