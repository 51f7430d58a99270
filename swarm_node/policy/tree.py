"""Token sequences as a tree of what they begin with in common: few shots, a prompt, the first tokens of completions.

Each common part is computed once, in training and in a prefill. Columns lie end to end in one row, without a pad.
Attention works level by level, because that takes two tensors a level, and no mask of L x L.

Suffixes of tensors: see policy/batch.py.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

import torch
from torch import Tensor

from swarm_node.policy.device import to_device

MAX_LEVELS = 8  # peers choose how their completions branch
WORTH = 16  # columns that a level has to save: its own calls cost as much, in starters; a larger model gains from one


@dataclass(frozen=True, slots=True)
class Level:
    """Segments with as many ancestors, as a block of attention: each is padded to the longest of the level."""

    count: int
    longest: int
    parents_S: Tensor  # index of each one's parent in the level above
    mask: Tensor | None  # bool [S or 1, 1, longest, all of the levels above + longest]; the first one is just causal


@dataclass(frozen=True, slots=True)
class Tree:
    """Where the columns of a tree belong, and where they go for attention.

    A column sees the earlier ones of its segment, and all of the segments above. It is on the way to some of the
    leaves, which have numbers in a row. Pads repeat the last column of their segment, and attention hides them.
    """

    ids_L: Tensor
    positions_L: Tensor
    leaves_L2: Tensor  # the first leaf that a column leads to, and the one after the last
    levels: tuple[Level, ...]
    columns_P: Tensor  # the column in each place of all blocks, one after the other
    places_L: Tensor  # the place of each column
    pads: Tensor  # places that hold no column of their own


class _Run(NamedTuple):
    """Leaves that have a segment in common."""

    parent: int
    first: int
    past: int  # the leaf after the last
    start: int  # tokens of these leaves before the segment
    end: int


def grow(paths: Sequence[Sequence[int]], device: torch.device, worth: int = WORTH) -> tuple[Tree, list[Sequence[int]]]:
    """The tree of these sequences, and of each the columns, in order; there may be more of them behind its last one."""
    ordered = sorted(set(map(tuple, paths)))
    leaves = [path for path, after in zip(ordered, [*ordered[1:], ()], strict=True) if after[: len(path)] != path]
    columns: list[list[int]] = [[] for _ in leaves]
    ids: list[int] = []
    positions: list[int] = []
    levels: list[list[_Run]] = []
    runs = list(_runs(leaves, 0, 0, len(leaves), 0))
    while runs:
        while any(run.past - run.first > 1 for run in runs) and (
            len(levels) + 1 == MAX_LEVELS or _saved(leaves, runs) < worth
        ):
            runs = [longer._replace(start=run.start) for run in runs for longer in _children(leaves, run, run.parent)]
        for run in runs:
            new = range(len(ids), len(ids) + run.end - run.start)
            for number in range(run.first, run.past):
                columns[number] += new
            ids += leaves[run.first][run.start : run.end]
            positions += range(run.start, run.end)
        levels.append(runs)
        below = (_children(leaves, run, number) for number, run in enumerate(runs) if run.past - run.first > 1)
        runs = [run for some in below for run in some]
    # A path that is no leaf is the beginning of the next one.
    return _tree(ids, positions, levels, device), [columns[bisect_left(leaves, tuple(path))] for path in paths]


def _runs(leaves: Sequence[Sequence[int]], parent: int, first: int, past: int, start: int) -> Iterator[_Run]:
    """The leaves from `first` on, together where they have the same token at `start`."""
    for _, equal in groupby(range(first, past), key=lambda number: leaves[number][start]):
        members = list(equal)
        one, other = leaves[members[0]], leaves[members[-1]]  # sorted: the others have in common what these have
        end = start
        while end < min(len(one), len(other)) and one[end] == other[end]:
            end += 1
        yield _Run(parent, members[0], members[-1] + 1, start, end)


def _children(leaves: Sequence[Sequence[int]], run: _Run, parent: int) -> list[_Run]:
    """What follows a run, or the run itself where that is a leaf's end."""
    if run.past - run.first == 1:
        return [run]
    return list(_runs(leaves, parent, run.first, run.past, run.end))


def _saved(leaves: Sequence[Sequence[int]], runs: Sequence[_Run]) -> int:
    """Columns that there would be more if each child of these had a copy of its parent."""
    return sum((run.end - run.start) * (len(_children(leaves, run, 0)) - 1) for run in runs)


def _tree(ids: list[int], positions: list[int], levels: Sequence[Sequence[_Run]], device: torch.device) -> Tree:
    blocks: list[Level] = []
    columns: list[Tensor] = []
    reals: list[Tensor] = []
    seen, first = torch.ones(1, 0, dtype=torch.bool), 0
    for runs in levels:
        lengths = torch.tensor([run.end - run.start for run in runs])
        step = torch.arange(int(lengths.max()))
        real = step < lengths[:, None]
        starts = first + lengths.cumsum(0) - lengths
        columns.append((starts[:, None] + step.minimum(lengths[:, None] - 1)).flatten())
        reals.append(real.flatten())
        parents_S = torch.tensor([run.parent for run in runs])
        mask = to_device(_mask(seen[parents_S], len(step)), device) if blocks else None
        blocks.append(Level(len(runs), len(step), to_device(parents_S, device), mask))
        seen, first = torch.cat([seen[parents_S], real], dim=1), first + int(lengths.sum())
    real_P, columns_P = torch.cat(reals), torch.cat(columns)
    places_L = torch.empty(len(ids), dtype=torch.long)
    places_L[columns_P[real_P]] = real_P.nonzero()[:, 0]
    leaves = [(run.first, run.past) for runs in levels for run in runs for _ in range(run.start, run.end)]
    return Tree(
        ids_L=to_device(ids, device),
        positions_L=to_device(positions, device),
        leaves_L2=to_device(leaves, device),
        levels=tuple(blocks),
        columns_P=to_device(columns_P, device),
        places_L=to_device(places_L, device),
        pads=to_device((~real_P).nonzero()[:, 0], device),
    )


def _mask(above: Tensor, longest: int) -> Tensor:
    """Of a level, from bool [S, columns of all levels above] which of these are real."""
    above = above[:1] if above.all() else above  # one for all
    own = torch.ones(longest, longest, dtype=torch.bool).tril().expand(len(above), 1, -1, -1)
    return torch.cat([above[:, None, None, :].expand(-1, 1, longest, -1), own], dim=-1)
