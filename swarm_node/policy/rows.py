"""From groups of token ids to rectangular model input, and back to flat tokens.

There are two layouts. `padded`: a row is a prompt and one completion. `packed`: a row is a prompt, once, and all
completions of its group behind it. Each completion sees only the prompt and itself (a tree mask), and positions restart
after the prompt. Prompts are padded on the left, so a completion follows its prompt directly, and only the last columns
need logits. The last token of a completion is predicted but never fed.

Which layout a model can take is probed elsewhere (policy/policy.py).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

MAX_PADDING = 0.3  # pads per real token in a micro-batch
MAX_PACKED = 4096  # columns of a packed row: its mask grows with their square, and peers choose the lengths


@dataclass(frozen=True, slots=True)
class Row:
    """One row of model input: a prompt and its completions."""

    prompt: Sequence[int]
    completions: Sequence[Sequence[int]]  # each of at least one token

    @property
    def fed(self) -> int:
        """Columns behind the prompt."""
        return sum(len(c) - 1 for c in self.completions)

    @property
    def length(self) -> int:
        return len(self.prompt) + self.fed


@dataclass(frozen=True, slots=True)
class RowBatch:
    """Model input for R rows of L columns, and where the prediction of each completion token is found."""

    input_ids: Tensor  # [R, L]
    position_ids: Tensor  # [R, L]
    attention_mask: Tensor  # [R, L] for single completions, else bool [R, 1, L, L], True where attention is allowed
    logits_to_keep: int  # only the last so many columns predict completion tokens
    source: Tensor  # [tokens] index into the flattened [R * logits_to_keep] predictions
    target: Tensor  # [tokens] ids to predict: row by row, completion by completion, in order


def split(row: Row, columns: int) -> list[list[int]]:
    """Indices of completions, in order, in pieces whose rows stay within `columns` (one completion always fits)."""
    pieces: list[list[int]] = []
    length = 0
    for index, completion in enumerate(row.completions):
        fed = len(completion) - 1
        if not pieces or length + fed > columns:
            pieces.append([])
            length = len(row.prompt)
        pieces[-1].append(index)
        length += fed
    return pieces


def micro_batches(rows: Sequence[Row], token_budget: int, *, pads: bool = True) -> Iterator[list[int]]:
    """Indices of rows, longest first, in batches of little padding whose padded size stays within the budget.

    A batch of one row always fits. Work grows with the padded size, so a batch is closed before its padding exceeds
    MAX_PADDING, although more passes cost time too. Without `pads` rows lie end to end and there is no padding.
    """
    batch: list[int] = []
    prompt = fed = real = 0  # widest of the batch: prompts are padded on the left, completions on the right
    for index in sorted(range(len(rows)), key=lambda i: -rows[i].length):
        row = rows[index]
        wider = max(prompt, len(row.prompt)), max(fed, row.fed)
        padded = sum(wider) * (len(batch) + 1) if pads else real + row.length
        if batch and (padded > token_budget or padded > (1 + MAX_PADDING) * (real + row.length)):
            yield batch
            batch, wider, real = [], (len(row.prompt), row.fed), 0
        prompt, fed = wider
        real += row.length
        batch.append(index)
    if batch:
        yield batch


def build(rows: Sequence[Row], pad_id: int, device: torch.device) -> RowBatch:
    """Rectangular input of the rows. Uses a plain 2-D mask unless a row holds more than one completion."""
    prompt_width = max(len(row.prompt) for row in rows)
    width = prompt_width + max(row.fed for row in rows)
    keep = width - prompt_width + 1
    ids, positions, segments = [], [], []
    source: list[int] = []
    target: list[int] = []
    for number, row in enumerate(rows):
        pads = prompt_width - len(row.prompt)
        row_ids = [pad_id] * pads + list(row.prompt)
        row_positions = [0] * pads + list(range(len(row.prompt)))
        row_segments = [-1] * pads + [0] * len(row.prompt)  # -1 pad, 0 prompt, k-th completion k
        for k, completion in enumerate(row.completions, start=1):
            # Token 0 is predicted by the prompt's last column, which is kept column 0; token j by that of token j - 1.
            offset = number * keep + len(row_ids) - prompt_width
            source += [number * keep, *range(offset + 1, offset + len(completion))]
            target += completion
            row_ids += completion[:-1]
            row_positions += range(len(row.prompt), len(row.prompt) + len(completion) - 1)
            row_segments += [k] * (len(completion) - 1)
        tail = width - len(row_ids)
        ids.append(row_ids + [pad_id] * tail)
        positions.append(row_positions + [0] * tail)
        segments.append(row_segments + [-1] * tail)
    segment = torch.tensor(segments, device=device)
    tree = any(len(row.completions) > 1 for row in rows)
    return RowBatch(
        input_ids=torch.tensor(ids, device=device),
        position_ids=torch.tensor(positions, device=device),
        attention_mask=tree_mask(segment) if tree else (segment >= 0).long(),
        logits_to_keep=keep,
        source=torch.tensor(source, device=device),
        target=torch.tensor(target, device=device),
    )


def tree_mask(segment: Tensor) -> Tensor:
    """bool [R, 1, L, L] from segment numbers [R, L]: causal, and only within the prompt or the column's completion.

    A pad sees only itself: a row of the mask without any True would give NaN in softmax.
    """
    length = segment.shape[1]
    query, key = segment[:, :, None], segment[:, None, :]
    causal = torch.ones(length, length, dtype=torch.bool, device=segment.device).tril()
    allowed = causal & (key >= 0) & ((key == 0) | (key == query))
    return (allowed | torch.eye(length, dtype=torch.bool, device=segment.device)).unsqueeze(1)
