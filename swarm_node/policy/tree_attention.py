"""Attention over rows in which sequences share their beginnings, registered with transformers: any model that lets its
attention be chosen can be trained on them without a mask of L x L.

Two kernels. `blocks`, everywhere: the segments of each level attend to a copy of the keys above them and to their own,
in one call of torch's scaled_dot_product_attention a level; a cascade over the prompt's own keys, without the copy, was
no faster. `flex`, on CUDA: torch's FlexAttention with a block mask.
A third, `alike`, is for writing: the model's usual attention in the type that training has it in.

What it is not: a promise that a model computes what it should this way. Policy.packing compares logits before use.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.flex_attention import flex_attention_forward
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from swarm_node.policy.tree import Tree

BLOCKS, FLEX, ALIKE = "swarm_node_blocks", "swarm_node_flex", "swarm_node_alike"  # as transformers knows them
TILE = 128  # columns of a side of FlexAttention's tiles
_current: ContextVar[Tree] = ContextVar("tree of the batch in the model's forward")


@contextmanager
def attending(model: Any, tree: Tree, kernel: str) -> Iterator[BlockMask | None]:
    """The model attends over the tree inside; yields the mask to call it with."""
    with within(tree), using(model, kernel):
        yield block_mask(tree) if kernel == FLEX else None


@contextmanager
def within(tree: Tree) -> Iterator[None]:
    """`BLOCKS` attends over this tree inside. Of this thread: autograd has threads of its own."""
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


def block_mask(tree: Tree) -> BlockMask:
    """The tree mask as FlexAttention takes it: tiles of it that are empty cost nothing."""
    first, past = (leaves.contiguous() for leaves in tree.leaves_L2.unbind(1))
    columns, device = len(first), first.device

    def sees(_batch: Tensor, _head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return (key <= query) & (first[key] <= first[query]) & (first[query] < past[key])

    tiles = -(-columns // TILE)
    every = torch.arange(tiles * TILE, device=device)
    some, full = (torch.zeros(tiles, tiles, dtype=torch.bool, device=device) for _ in range(2))
    for row in range(tiles):  # a row of tiles at a time: torch's own makes the whole mask, 2 GiB at 15,000 columns
        query, key = every[row * TILE : (row + 1) * TILE, None], every[None, :]
        inside = (query < columns) & (key < columns)
        seen = inside & sees(every, every, query.clamp_max(columns - 1), key.clamp_max(columns - 1))
        seen = seen.view(TILE, tiles, TILE)
        some[row], full[row] = seen.any(2).any(0), seen.all(2).all(0)
    partial_tiles, full_tiles = _listed(some & ~full), _listed(full)
    sizes = (columns, columns)
    return BlockMask.from_kv_blocks(*partial_tiles, *full_tiles, BLOCK_SIZE=TILE, mask_mod=sees, seq_lengths=sizes)


def _listed(wanted: Tensor) -> tuple[Tensor, Tensor]:
    """Of each row of tiles how many are wanted, and their numbers, the others behind; for one batch and one head."""
    count = wanted.sum(1, dtype=torch.int32)
    order = wanted.int().argsort(dim=1, descending=True, stable=True).int()
    return count[None, None], order[None, None]


@cache
def flex_works(device: torch.device) -> bool:
    """Whether FlexAttention runs forwards and backwards here: it needs CUDA and a compiler."""
    if device.type != "cuda":
        return False
    from torch.nn.attention.flex_attention import flex_attention

    try:
        query = torch.randn(1, 2, 128, 64, device=device, requires_grad=True)
        torch.compile(flex_attention)(query, query, query).sum().backward()  # type: ignore[no-untyped-call]
    except Exception:  # noqa: BLE001  compilers fail in ways of their own; the other kernel always works
        return False
    return True


class _Rearranged(torch.autograd.Function):
    """Rows of x by index, where the gradient's way back is an index too: each real row is taken exactly once."""

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
    """Blocks by index, each as often as it is named. torch's own ways back add single numbers, this is a product."""

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


def attend(query: Tensor, key: Tensor, value: Tensor, tree: Tree, scaling: float | None = None) -> Tensor:
    """q [L, heads, dim], k and v [L, kv_heads, dim] -> [L, heads, dim]."""
    attention = partial(F.scaled_dot_product_attention, scale=scaling)
    (q, *queries), (keys, *own_keys), (values, *own_values) = (_split(x, tree) for x in (query, key, value))
    seen = [attention(q, keys, values, is_causal=True, enable_gqa=q.shape[1] != keys.shape[1])]
    for level, q, k, v in zip(tree.levels[1:], queries, own_keys, own_values, strict=True):
        keys, values = (
            torch.cat([_Repeated.apply(above, level.parents_S), own], dim=2)  # type: ignore[no-untyped-call]
            for above, own in ((keys, k), (values, v))
        )
        wide = keys, values
        if query.device.type == "cuda":  # which has no fused kernel for shared heads under a mask, but one for this
            wide = _for_every_head(keys, query.shape[1]), _for_every_head(values, query.shape[1])
        seen.append(attention(q, *wide, attn_mask=level.mask, enable_gqa=q.shape[1] != wide[0].shape[1]))
    flat = torch.cat([block.transpose(1, 2).flatten(0, 1) for block in seen])
    joined: Tensor = _Rearranged.apply(flat, tree.places_L, tree.columns_P, tree.pads)  # type: ignore[no-untyped-call]
    return joined


def _for_every_head(x: Tensor, heads: int) -> Tensor:
    """Keys or values [blocks, kv_heads, length, dim] for each head of the queries."""
    return x.repeat_interleave(heads // x.shape[1], dim=1)


def _attend(
    _module: Any, query: Tensor, key: Tensor, value: Tensor, _mask: Any, scaling: float | None = None, **_options: Any
) -> tuple[Tensor, None]:
    """transformers' signature: q [1, heads, L, dim], k and v [1, kv_heads, L, dim] -> [1, L, heads, dim]."""
    with torch.autocast(query.device.type, enabled=False):
        q, k, v = (x[0].transpose(0, 1) for x in _of_one_type(query, key, value))
        seen = attend(q, k, v, _current.get(), scaling)
    return seen.unsqueeze(0).to(query.dtype), None


def _attend_flex(
    module: Any, query: Tensor, key: Tensor, value: Tensor, mask: BlockMask, **options: Any
) -> tuple[Tensor, None]:
    with torch.autocast(query.device.type, enabled=False):
        seen, _ = flex_attention_forward(module, *_of_one_type(query, key, value), mask, **options)
    return seen.to(query.dtype), None


def _attend_alike(
    module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, **options: Any
) -> tuple[Tensor, None]:
    with torch.autocast(query.device.type, enabled=False):
        seen, _ = sdpa_attention_forward(module, *_of_one_type(query, key, value), mask, **options)
    return seen.to(query.dtype), None


def attention_dtype(device: torch.device, products: torch.dtype) -> torch.dtype:
    """What training attends in, by the type of its matrix products: float32 on a CPU, whose kernel is twice as slow
    backwards in bfloat16."""
    return torch.float32 if device.type == "cpu" else products


def _of_one_type(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """As kernels demand; under autocast rotary embeddings leave queries and keys in float32, values in bfloat16."""
    dtype = attention_dtype(query.device, value.dtype)
    return query.to(dtype), key.to(dtype), value.to(dtype)


def _split(x: Tensor, tree: Tree) -> list[Tensor]:
    """[L, heads, dim] as the blocks of attention, [count, heads, longest, dim] each."""
    placed: Tensor = _Rearranged.apply(x, tree.columns_P, tree.places_L, None)  # type: ignore[no-untyped-call]
    parts = torch.split(placed, [level.count * level.longest for level in tree.levels])
    shapes = [(level.count, level.longest, *placed.shape[1:]) for level in tree.levels]
    return [part.view(shape).transpose(1, 2) for part, shape in zip(parts, shapes, strict=True)]


AttentionInterface.register(BLOCKS, _attend)
AttentionInterface.register(FLEX, _attend_flex)
AttentionInterface.register(ALIKE, _attend_alike)
AttentionMaskInterface.register(ALIKE, sdpa_mask)
