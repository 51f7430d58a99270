"""Gradient checkpointing by block: a block keeps only its input, and is computed again in the
backward pass.

transformers' own switch needs blocks in training mode, which turns on dropout. Autograd runs the
backward pass in threads of its own: `around` sets up there what a block needs besides its
arguments.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any

from torch.utils.checkpoint import checkpoint
from transformers.modeling_layers import GradientCheckpointingLayer

Around = Callable[[], AbstractContextManager[Any]]

# Nothing here is random
recomputed = partial(checkpoint, use_reentrant=False, preserve_rng_state=False)


def blocks_of(model: Any) -> list[Any]:
    """The blocks that can be computed again; none for a model that transformers does not
    checkpoint.
    """
    return [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]


@contextmanager
def checkpointing(model: Any, around: Around = nullcontext) -> Iterator[None]:
    """Blocks called inside are computed again in the backward pass, within `around`."""
    blocks = blocks_of(model)
    for block in blocks:
        block.forward = partial(recomputed, _within(around, block.forward))
    try:
        yield
    finally:
        for block in blocks:
            del block.forward


def _within(around: Around, forward: Callable[..., Any]) -> Callable[..., Any]:
    def work(*args: Any, **options: Any) -> Any:
        with around():
            return forward(*args, **options)

    return work
