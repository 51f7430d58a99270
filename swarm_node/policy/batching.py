"""Dynamic micro-batches by token budget (AReaL, arXiv 2505.24298, algorithm 1)."""

from collections.abc import Sequence

from swarm_node.policy.rows import Row


def dynamic_batches(rows: Sequence[Row], token_budget: int, *, pads: bool = True, fewest: int = 1) -> list[list[int]]:
    """Indices of rows in micro-batches, the longest row first.

    A new batch is opened while there are fewer than `fewest`, or when no batch has room. Else a row joins the batch
    with the fewest rows among those with room. The padded size must stay within the budget: prompts are padded on the
    left, completions on the right. Without `pads` rows lie end to end. A row longer than the budget is alone.

    Compared with `rows.micro_batches` it makes fewer batches with more padding, and never closes one that has room.
    """
    batches: list[list[int]] = []
    widths: list[tuple[int, int]] = []  # of each batch: the widest prompt, the most columns behind one
    real: list[int] = []  # tokens of each batch
    for index in sorted(range(len(rows)), key=lambda i: -rows[i].length):
        row = rows[index]
        wider = [(max(prompt, len(row.prompt)), max(fed, row.fed)) for prompt, fed in widths]
        sizes = [sum(wider[i]) * (len(batch) + 1) if pads else real[i] + row.length for i, batch in enumerate(batches)]
        roomy = [i for i, size in enumerate(sizes) if size <= token_budget]
        if len(batches) < fewest or not roomy:
            batches.append([index])
            widths.append((len(row.prompt), row.fed))
            real.append(row.length)
        else:
            chosen = min(roomy, key=lambda i: len(batches[i]))
            batches[chosen].append(index)
            widths[chosen] = wider[chosen]
            real[chosen] += row.length
    return batches
