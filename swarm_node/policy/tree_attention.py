"""Token sequences as a tree of their common beginnings (few shots, a prompt, first tokens of
completions), and attention over such trees, registered with transformers for any model that lets
its attention be chosen.

Theory of operation
===================

Most of what a round trains on begins alike: eight completions share their prompt, and the prompts
of one task share their shots. Such a beginning is computed once, in training and in a prefill.

`grow` takes the sequences and makes one row of them. A *segment* is a run of tokens that the same
sequences share, a *leaf* is a sequence that is not the beginning of another, and a *level* holds
the segments with the same number of segments above them. Of the sequences 12345, 1236 and 12347,
with nothing asked of a level (`worth` 0):

    tokens                        columns of the one row, level by level

    level 0   1 2 3               0 1 2
             /     \
    level 1  4       6            3   4
            / \
    level 2 5   7                 5   6

So 12345 has the columns 0 1 2 3 5, and `positions_L` counts 0 1 2 3 3 4 4. All layers but attention
take the row as it is. `attend` takes it apart into levels and puts it together again:

    level 0   one block           causal attention to itself
       |      keys: 1 2 3
       v
    level 1   a block for 4,      its own keys behind a copy of those of its parent: [123]4, [123]6
       |      and one for 6
       v
    level 2   a block for 5,      [1234]5, [1234]7
              and one for 7

That is one call of torch's scaled_dot_product_attention a level, with two tensors for each level
(`Level`) and no mask of L x L. Neither a cascade over the prompt's own keys, without the copy, nor
torch's FlexAttention with a block mask (one size on an H200) was faster. transformers finds this
attention by the name in BLOCKS. Another one, ALIKE, is for generation: the model's usual attention
in the type that training uses.

What always holds:

- A column sees the earlier ones of its segment and all of the segments above, and nothing else. So
  a sequence has the logits that it has alone, except for rounding. A model may compute something
  else this way, so `Policy.packing` compares logits before use.
- Leaves are in the order of their tokens. So the leaves to which a column leads are consecutive,
  and two numbers name them (`leaves_L2`).
- There are at most MAX_LEVELS levels, since peers choose how their completions branch, and a level
  is made only if it saves `worth` columns. Where it is not made, each child gets a copy of its
  parent's tokens.
- Blocks of a level are padded to the longest. A pad repeats the last column of its segment, the
  mask hides it, and no gradient comes back through it. The row itself has no pad.
- Each column has one place in the blocks. So the way there and the way back are both an index, and
  no gradient has to be added up (`_Rearranged`).

Suffixes of tensors: see policy/batch.py.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from swarm_node.policy.device import to_device

BLOCKS, ALIKE = "swarm_node_blocks", "swarm_node_alike"  # names for transformers
MAX_LEVELS = 8  # peers choose how their completions branch
# Columns that a level has to save: in starters its own calls cost as much; larger models gain from
# one
WORTH = 16


@dataclass(frozen=True, slots=True)
class Level:
    """Segments with the same number of ancestors, as a block of attention: each is padded to the
    level's longest.
    """

    count: int
    longest: int
    parents_S: Tensor  # index of each one's parent in the level above
    # Bool [S or 1, 1, longest, all of the levels above + longest]; the first one is just causal
    mask: Tensor | None


@dataclass(frozen=True, slots=True)
class Tree:
    """A batch in which completions share their prompt, as a tree of segments: where each token (a
    column) belongs, and where it goes for attention.

    A column sees the earlier ones of its segment, and all of the segments above. It leads to some
    of the leaves, whose numbers are consecutive. Pads repeat the last column of their segment, and
    attention hides them.
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


def grow(
    paths: Sequence[Sequence[int]], device: torch.device, worth: int = WORTH
) -> tuple[Tree, list[Sequence[int]]]:
    """The tree of these sequences, and each one's columns in order; more may follow its last one.
    `worth`: as WORTH.
    """
    ordered = sorted(set(map(tuple, paths)))
    leaves = [
        path
        for path, after in zip(ordered, [*ordered[1:], ()], strict=True)
        if after[: len(path)] != path
    ]
    columns: list[list[int]] = [[] for _ in leaves]
    ids: list[int] = []
    positions: list[int] = []
    levels: list[list[_Run]] = []
    runs = list(_runs(leaves, 0, 0, len(leaves), 0))
    while runs:
        while any(run.past - run.first > 1 for run in runs) and (
            len(levels) + 1 == MAX_LEVELS or _saved(leaves, runs) < worth
        ):
            runs = [
                longer._replace(start=run.start)
                for run in runs
                for longer in _children(leaves, run, run.parent)
            ]
        for run in runs:
            new = range(len(ids), len(ids) + run.end - run.start)
            for number in range(run.first, run.past):
                columns[number] += new
            ids += leaves[run.first][run.start : run.end]
            positions += range(run.start, run.end)
        levels.append(runs)
        below = (
            _children(leaves, run, number)
            for number, run in enumerate(runs)
            if run.past - run.first > 1
        )
        runs = [run for some in below for run in some]
    # A path that is not a leaf is the beginning of the next one.
    return _tree(ids, positions, levels, device), [
        columns[bisect_left(leaves, tuple(path))] for path in paths
    ]


def _runs(
    leaves: Sequence[Sequence[int]], parent: int, first: int, past: int, start: int
) -> Iterator[_Run]:
    """The leaves from `first` to before `past`, in runs of the same token at `start`."""
    for _, equal in groupby(range(first, past), key=lambda number: leaves[number][start]):
        members = list(equal)
        # Sorted: those between share what these two share
        one, other = leaves[members[0]], leaves[members[-1]]
        end = start
        while end < min(len(one), len(other)) and one[end] == other[end]:
            end += 1
        yield _Run(parent, members[0], members[-1] + 1, start, end)


def _children(leaves: Sequence[Sequence[int]], run: _Run, parent: int) -> list[_Run]:
    """The runs that follow a run, or the run itself if it is a leaf's end."""
    if run.past - run.first == 1:
        return [run]
    return list(_runs(leaves, parent, run.first, run.past, run.end))


def _saved(leaves: Sequence[Sequence[int]], runs: Sequence[_Run]) -> int:
    """The additional columns if each child of these runs had a copy of its parent."""
    return sum((run.end - run.start) * (len(_children(leaves, run, 0)) - 1) for run in runs)


def _tree(
    ids: list[int], positions: list[int], levels: Sequence[Sequence[_Run]], device: torch.device
) -> Tree:
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
    leaves = [
        (run.first, run.past) for runs in levels for run in runs for _ in range(run.start, run.end)
    ]
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
    """The mask of a level. `above`: bool [S, columns of all levels above], which of these are
    real.
    """
    above = above[:1] if above.all() else above  # one for all
    own = torch.ones(longest, longest, dtype=torch.bool).tril().expand(len(above), 1, -1, -1)
    return torch.cat([above[:, None, None, :].expand(-1, 1, longest, -1), own], dim=-1)


_current: ContextVar[Tree] = ContextVar("tree of the batch in the model's forward")


@contextmanager
def attending(model: Any, tree: Tree) -> Iterator[None]:
    """The model attends over the tree inside the context."""
    with within(tree), using(model, BLOCKS):
        yield


@contextmanager
def within(tree: Tree) -> Iterator[None]:
    """`BLOCKS` attends over this tree inside the context, in this thread only: autograd has threads
    of its own.
    """
    token = _current.set(tree)
    try:
        yield
    finally:
        _current.reset(token)


@contextmanager
def using(model: Any, kernel: str) -> Iterator[None]:
    """The model computes attention with `kernel` inside."""
    before = model.config._attn_implementation
    model.set_attn_implementation(kernel)
    try:
        yield
    finally:
        model.set_attn_implementation(before)


class _Rearranged(torch.autograd.Function):
    """Rows of x by index. The gradient comes back by an index, too: each real row is taken exactly
    once.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, there: Tensor, back: Tensor, pads: Tensor | None) -> Tensor:
        ctx.save_for_backward(back)
        ctx.pads = pads
        return x.index_select(0, there)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (back,) = ctx.saved_tensors
        gradient = gradients[0].index_select(0, back)
        if ctx.pads is not None:
            gradient.index_fill_(0, ctx.pads, 0.0)
        return gradient, None, None, None


class _Repeated(torch.autograd.Function):
    """Blocks by index, each as often as it is named. torch's own backward adds single numbers; this
    is a product.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, index: Tensor) -> Tensor:
        ctx.save_for_backward(index)
        ctx.shape = x.shape
        return x.index_select(0, index)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (index,) = ctx.saved_tensors
        named = F.one_hot(index, ctx.shape[0]).to(gradients[0].dtype)
        return (named.T @ gradients[0].flatten(1)).view(ctx.shape), None


def attend(
    query: Tensor, key: Tensor, value: Tensor, tree: Tree, scaling: float | None = None
) -> Tensor:
    """q [L, heads, dim], k and v [L, kv_heads, dim] -> [L, heads, dim]."""
    attention = partial(F.scaled_dot_product_attention, scale=scaling)
    (q, *queries), (keys, *own_keys), (values, *own_values) = (
        _split(x, tree) for x in (query, key, value)
    )
    seen = [attention(q, keys, values, is_causal=True, enable_gqa=q.shape[1] != keys.shape[1])]
    for level, q, k, v in zip(tree.levels[1:], queries, own_keys, own_values, strict=True):
        keys, values = (
            torch.cat([_Repeated.apply(above, level.parents_S), own], dim=2)  # type: ignore[no-untyped-call]
            for above, own in ((keys, k), (values, v))
        )
        wide = keys, values
        if query.device.type == "cuda":  # whose fused kernels under a mask take no shared heads
            wide = _for_every_head(keys, query.shape[1]), _for_every_head(values, query.shape[1])
        seen.append(
            attention(q, *wide, attn_mask=level.mask, enable_gqa=q.shape[1] != wide[0].shape[1])
        )
    flat = torch.cat([block.transpose(1, 2).flatten(0, 1) for block in seen])
    joined: Tensor = _Rearranged.apply(flat, tree.places_L, tree.columns_P, tree.pads)  # type: ignore[no-untyped-call]
    return joined


def _for_every_head(x: Tensor, heads: int) -> Tensor:
    """Keys or values [blocks, kv_heads, length, dim] for each head of the queries."""
    return x.repeat_interleave(heads // x.shape[1], dim=1)


def _attend(
    _module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    _mask: Any,
    scaling: float | None = None,
    **_options: Any,
) -> tuple[Tensor, None]:
    """transformers' signature: q [1, heads, L, dim], k and v [1, kv_heads, L, dim] -> [1, L, heads,
    dim].
    """
    with torch.autocast(query.device.type, enabled=False):
        q, k, v = (x[0].transpose(0, 1) for x in _of_one_type(query, key, value))
        seen = attend(q, k, v, _current.get(), scaling)
    return seen.unsqueeze(0).to(query.dtype), None


def _attend_alike(
    module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, **options: Any
) -> tuple[Tensor, None]:
    with torch.autocast(query.device.type, enabled=False):
        seen, _ = sdpa_attention_forward(module, *_of_one_type(query, key, value), mask, **options)
    return seen.to(query.dtype), None


def attention_dtype(device: torch.device, products: torch.dtype) -> torch.dtype:
    """The type of attention in training, by that of the matrix products: float32 on a CPU, whose
    kernel is twice as slow backwards in bfloat16.
    """
    return torch.float32 if device.type == "cpu" else products


def _of_one_type(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """All in one type, as kernels demand; under autocast rotary embeddings make q and k float32, v
    stays bfloat16.
    """
    dtype = attention_dtype(query.device, value.dtype)
    return query.to(dtype), key.to(dtype), value.to(dtype)


def _split(x: Tensor, tree: Tree) -> list[Tensor]:
    """[L, heads, dim] as the blocks of attention, [count, heads, longest, dim] each."""
    placed: Tensor = _Rearranged.apply(x, tree.columns_P, tree.places_L, None)  # type: ignore[no-untyped-call]
    parts = torch.split(placed, [level.count * level.longest for level in tree.levels])
    shapes = [(level.count, level.longest, *placed.shape[1:]) for level in tree.levels]
    return [part.view(shape).transpose(1, 2) for part, shape in zip(parts, shapes, strict=True)]


AttentionInterface.register(BLOCKS, _attend)
AttentionInterface.register(ALIKE, _attend_alike)
AttentionMaskInterface.register(ALIKE, sdpa_mask)
