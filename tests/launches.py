"""Counts what a model asks of a card: operator calls that compute something, and times that the
host waits.

Calls inside a block that can run as one graph have a count of their own. Counts do not depend on
how busy the machine is, nor on the size of the model, except for its number of layers.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

WAITS = {
    "_local_scalar_dense",
    "nonzero",
    "is_nonzero",
    "equal",
    "masked_select",
    "unique_dim",
    "_unique2",
}
NO_KERNEL = {
    "_unsafe_view",
    "_reshape_alias",
    "detach",
    "empty",
    "empty_like",
    "new_empty",
    "empty_strided",
}
CASTS = {"to", "_to_copy"}
# With a boolean mask the host waits to know how many numbers it picks
MASKS = {"index", "index_put", "index_put_"}


class Launches(TorchDispatchMode):
    """While it is active: operator calls inside blocks and outside, and waits by operator."""

    def __init__(self) -> None:
        super().__init__()
        self.inside = self.outside = self.blocks = 0
        self.waits: Counter[str] = Counter()
        self.waits_inside = self.cast_weights_inside = 0
        self._depth = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.__name__.split(".")[0]
        made = func(*args, **(kwargs or {}))
        cast = name in CASTS and made.dtype != args[0].dtype
        self.cast_weights_inside += (
            cast and self._depth > 0 and isinstance(args[0], torch.nn.Parameter)
        )
        if cast or (not func.is_view and name not in NO_KERNEL):
            self.inside += self._depth > 0
            self.outside += self._depth == 0
        if name in WAITS or (name in MASKS and any(_is_mask(index) for index in args[1])):
            self.wait(name)
        return made

    def wait(self, name: str) -> None:
        self.waits[name] += 1
        self.waits_inside += self._depth

    @contextmanager
    def block(self) -> Iterator[None]:
        """Counts the calls within as those of a block that can run as one graph."""
        self.blocks += 1
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1


def _is_mask(index: Any) -> bool:
    return isinstance(index, torch.Tensor) and index.dtype == torch.bool
