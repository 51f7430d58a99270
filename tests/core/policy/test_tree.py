"""Rows end to end: the tree mask, where attention finds its blocks, and that nothing but the layout changes."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from swarm_node.policy.batch import build_rows, build_tree, micro_batches
from swarm_node.policy.batch import unrecorded as new
from tests.gradients import allowed
from tests.models import plain_log_probs, tiny_policy

CPU = torch.device("cpu")
TOKEN = st.integers(1, 98)
SEQUENCE = st.lists(TOKEN, min_size=1, max_size=9)
ROWS = st.lists(st.builds(new, SEQUENCE, st.lists(SEQUENCE, min_size=1, max_size=4)), min_size=1, max_size=4)


@pytest.fixture(scope="module")
def policy():
    return tiny_policy()


def log_probs(policy, batch) -> torch.Tensor:
    return torch.log_softmax(policy.logits(batch), -1).gather(1, batch.target_T[:, None])[:, 0]


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(packed=ROWS)
def test_rows_end_to_end_give_the_log_probs_of_unpadded_forwards(policy, packed) -> None:
    with torch.no_grad():
        truth = torch.cat([plain_log_probs(policy.model, r.prompt_ids, c) for r in packed for c in r.completion_ids])
        torch.testing.assert_close(log_probs(policy, build_tree(packed, CPU)), truth, atol=1e-5, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("family", ["Llama", "Qwen3", "GPT2", "OPT"])
@pytest.mark.parametrize(
    "packed",
    [
        [new([5, 6, 7], [[8, 9], [10], [11, 12, 13]]), new([20], [[21], [22]]), new([30, 31], [[32, 33, 34, 35]])],
        [new([5], [[6], [7], [8]])],
        [new([5, 6, 7, 8, 9, 10], [[11]])],
        [new(list(range(1, 60)), [list(range(k, k + 20)) for k in range(8)])] * 2,
    ],
    ids=["groups of different size", "single tokens", "one row", "equal groups"],
)
def test_gradients_equal_the_padded_ones(family, packed) -> None:
    policy = tiny_policy(family)
    padded = [piece for group in packed for piece in group.pieces(0)]

    def gradients(batch) -> list[torch.Tensor]:
        policy.model.zero_grad()
        values = log_probs(policy, batch)
        (values * torch.linspace(-1, 1, len(values)).sin()).mean().backward()
        return [p.grad.clone() for p in policy.model.parameters() if p.grad is not None]

    ours, theirs = gradients(build_tree(packed, CPU)), gradients(build_rows(padded, 0, CPU))
    largest = max(float(gradient.abs().max()) for gradient in theirs)
    assert largest > 1e-2
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5 * largest, rtol=1e-5)


@pytest.mark.slow
@given(packed=ROWS)
def test_a_column_sees_its_prompt_and_what_came_before_in_its_completion(packed) -> None:
    seen = allowed(build_tree(packed, CPU)).tolist()
    column = 0
    for row in packed:
        start, prompt = column, len(row.prompt_ids)
        for fed in (prompt, *(len(completion) - 1 for completion in row.completion_ids)):
            for step in range(fed):
                own = range(column - step, column + 1)
                expected = set(own) if column < start + prompt else {*range(start, start + prompt), *own}
                assert {key for key, sees in enumerate(seen[column]) if sees} == expected
                column += 1
    assert column == len(seen)


@given(packed=ROWS)
def test_every_token_is_predicted_once_in_order_by_the_token_before_it(packed) -> None:
    batch = build_tree(packed, CPU)
    assert batch.target_T.tolist() == [token for row in packed for c in row.completion_ids for token in c]
    before = [fed for row in packed for c in row.completion_ids for fed in (row.prompt_ids[-1], *c[:-1])]
    assert batch.ids_RL[0, batch.source_T].tolist() == before
    positions = [len(row.prompt_ids) - 1 + j for row in packed for c in row.completion_ids for j in range(len(c))]
    assert batch.positions_RL[0, batch.source_T].tolist() == positions


@pytest.mark.slow
@given(packed=ROWS)
def test_blocks_hold_every_column_once_and_the_rest_are_pads(packed) -> None:
    batch = build_tree(packed, CPU)
    blocks, total = batch.tree, batch.ids_RL.shape[1]
    assert blocks.columns_P[blocks.places_L].tolist() == list(range(total))
    assert sorted([*blocks.places_L.tolist(), *blocks.pads.tolist()]) == list(range(len(blocks.columns_P)))
    assert total == sum(row.length for row in packed)


def test_a_batch_of_rows_end_to_end_is_filled_up_to_the_budget() -> None:
    packed = [new([5] * 10, [[6] * 11])] * 3 + [new([5] * 60, [[6] * 21])]
    assert [sum(packed[i].length for i in batch) for batch in micro_batches(packed, 100, pads=False)] == [100, 40]
