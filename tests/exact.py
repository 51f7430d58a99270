"""Computes all that a node computes in float64, also what it or transformers keeps in float32
whatever the type of the model: norms, log-probs, losses, and what is recorded of a completion. Then
two ways to add the same numbers agree to twelve digits, and a difference in what is added shows.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

TO_FLOAT, TO = torch.Tensor.float, torch.Tensor.to


def kept(tensor: torch.Tensor, *arguments: Any, **options: Any) -> torch.Tensor:
    """`Tensor.float`, but float64 stays."""
    double = tensor.dtype == torch.float64
    return tensor if double else TO_FLOAT(tensor, *arguments, **options)


def moved(tensor: torch.Tensor, *arguments: Any, **options: Any) -> torch.Tensor:
    """`Tensor.to`, but float64 does not become float32."""
    if tensor.dtype == torch.float64:
        arguments = tuple(tensor.dtype if one is torch.float32 else one for one in arguments)
        if options.get("dtype") is torch.float32:
            options["dtype"] = tensor.dtype
    return TO(tensor, *arguments, **options)


def begin() -> None:
    """From now on, in this process."""
    torch.Tensor.float, torch.Tensor.to = kept, moved  # type: ignore[method-assign,assignment]
    torch.set_default_dtype(torch.float64)


@contextmanager
def in_float64() -> Iterator[None]:
    """Inside the context, in this process."""
    begin()
    try:
        yield
    finally:
        torch.Tensor.float, torch.Tensor.to = TO_FLOAT, TO  # type: ignore[method-assign]
        torch.set_default_dtype(torch.float32)
