"""Dynamic micro-batches by token budget (AReaL, arXiv 2505.24298, algorithm 1)."""

from collections.abc import Sequence


def dynamic_batches(lengths: Sequence[int], token_budget: int, fewest: int = 1) -> list[list[int]]:
    """Indices of sequences in micro-batches, the longest sequence first.

    A new batch is opened while there are fewer than `fewest`, or when no batch has room; else a sequence joins, among
    those with room, the batch with the fewest sequences. Batches are padded to their first, longest sequence, so the
    size that must stay within the budget is that of the rectangle. A sequence longer than the budget goes alone.
    """
    batches: list[list[int]] = []
    for index in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        roomy = [batch for batch in batches if lengths[batch[0]] * (len(batch) + 1) <= token_budget]
        if len(batches) < fewest or not roomy:
            batches.append([index])
        else:
            min(roomy, key=len).append(index)
    return batches
