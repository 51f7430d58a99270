"""Packed rows end to end, without a pad: prompts and completions as one sequence under a tree mask.

Layers other than attention see tokens one by one, so groups of any shape share one row of columns. Every prompt and
every completion is a *group* of columns with a number, and has a *parent*. The parent of a completion is its prompt;
the parent of a prompt is itself. A column sees an earlier column if that one is in its group or in its parent.
Positions restart after the prompt.

This file computes where the groups are; policy/tree_attention.py attends.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from swarm_node.policy.rows import Row


@dataclass(frozen=True, slots=True)
class Blocks:
    """Where the columns go for attention: prompts in one block, completions in another, each padded to its longest.

    Pads repeat the last column of their group. Causal attention hides them from real columns.
    """

    prompts: tuple[int, int]  # prompts, longest
    completions: tuple[int, int]  # completions with a column of their own, longest; (0, 0) if all are single tokens
    columns: Tensor  # [places] the column in each place of both blocks, one after the other
    places: Tensor  # [T] the place of each column
    pads: Tensor  # [pads] places that hold no column of their own
    parents: Tensor  # [completions] index of the prompt
    mask: Tensor  # bool [completions or 1, 1, longest, longest prompt + longest], True where attention is allowed


@dataclass(frozen=True, slots=True)
class TreeBatch:
    """Model input of one row of T columns, and where the prediction of each completion token is found."""

    input_ids: Tensor  # [1, T]
    position_ids: Tensor  # [1, T]
    groups: Tensor  # [T] number of the column's group
    parents: Tensor  # [T] number of the parent of the column's group
    source: Tensor  # [tokens] column of each prediction
    target: Tensor  # [tokens] ids to predict: row by row, completion by completion, in order
    blocks: Blocks


def build(rows: Sequence[Row], device: torch.device) -> TreeBatch:
    """The rows end to end. The last token of a completion is predicted but never fed."""
    ids: list[int] = []
    positions: list[int] = []
    source: list[int] = []
    target: list[int] = []
    spans: list[tuple[int, int, int]] = []  # of each group: parent, first column, columns
    for row in rows:
        prompt, last = len(spans), len(ids) + len(row.prompt) - 1
        spans.append((prompt, len(ids), len(row.prompt)))
        ids += row.prompt
        positions += range(len(row.prompt))
        for completion in row.completions:
            fed = len(completion) - 1
            source += [last, *range(len(ids), len(ids) + fed)]
            target += completion
            spans.append((prompt, len(ids), fed))
            ids += completion[:-1]
            positions += range(len(row.prompt), len(row.prompt) + fed)
    parents, _, lengths = torch.tensor(spans).T
    of_column = torch.arange(len(spans)).repeat_interleave(lengths)
    return TreeBatch(
        input_ids=torch.tensor([ids], device=device),
        position_ids=torch.tensor([positions], device=device),
        groups=of_column.to(device),
        parents=parents[of_column].to(device),
        source=torch.tensor(source, device=device),
        target=torch.tensor(target, device=device),
        blocks=_blocks(spans, device),
    )


def allowed(batch: TreeBatch) -> Tensor:
    """The tree mask in full, bool [T, T]: what `Blocks` computes without building it; for tests."""
    causal = torch.ones(len(batch.groups), len(batch.groups), dtype=torch.bool, device=batch.groups.device).tril()
    key = batch.groups[None, :]
    return causal & ((key == batch.groups[:, None]) | (key == batch.parents[:, None]))


def _blocks(spans: list[tuple[int, int, int]], device: torch.device) -> Blocks:
    numbers = {group: index for index, group in enumerate(dict.fromkeys(parent for parent, _, _ in spans))}
    prompts = [spans[group][1:] for group in numbers]
    completions = [span for group, span in enumerate(spans) if group not in numbers and span[2]]
    prompt_columns, prompt_real = _padded(prompts)
    columns, real = _padded([span[1:] for span in completions])
    parents = torch.tensor([numbers[parent] for parent, _, _ in completions], dtype=torch.long)
    is_real = torch.cat([prompt_real.flatten(), real.flatten()])
    every = torch.cat([prompt_columns.flatten(), columns.flatten()])
    places = torch.empty(int(is_real.sum()), dtype=torch.long)
    places[every[is_real]] = is_real.nonzero()[:, 0]
    seen = prompt_real[parents] if not prompt_real.all() else prompt_real[:1]  # prompts of one length: one mask for all
    longest = columns.shape[1]
    prompt_part = seen[:, None, None, :].expand(-1, 1, longest, -1)
    completion_part = torch.ones(longest, longest, dtype=torch.bool).tril().expand(len(seen), 1, -1, -1)
    return Blocks(
        prompts=(len(prompts), prompt_columns.shape[1]),
        completions=(len(completions), longest),
        columns=every.to(device),
        places=places.to(device),
        pads=(~is_real).nonzero()[:, 0].to(device),
        parents=parents.to(device),
        mask=torch.cat([prompt_part, completion_part], dim=-1).to(device),
    )


def _padded(spans: Sequence[tuple[int, ...]]) -> tuple[Tensor, Tensor]:
    """Columns [spans, longest] of spans (first, length), pads repeating the last one, and bool which are real."""
    if not spans:
        return torch.zeros(0, 0, dtype=torch.long), torch.zeros(0, 0, dtype=torch.bool)
    first, length = torch.tensor(spans).T[:, :, None]
    step = torch.arange(int(length.max()))
    return first + step.minimum(length - 1), step < length
