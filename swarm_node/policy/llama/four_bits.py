"""Linear layers whose frozen weights have 4 bits (QLoRA), as products of our decoder.

Their layers come from bitsandbytes, an extra, and are known by their name. Each multiplies by its
weight itself: with a kernel that reads the 4 bits where there is one for this card and number of
rows, else by writing the weight out first, one layer after the other. So a step never holds more
than one weight in full, and 4 bits cost memory only: all else of the decoder is as for other bases.
"""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


def is_four_bits(module: Any) -> bool:
    """Whether this is a linear layer of bitsandbytes with 4 bits a weight. peft's layer around one
    has the same name.
    """
    kind = type(module)
    return kind.__name__ == "Linear4bit" and kind.__module__.partition(".")[0] == "bitsandbytes"


@dataclass(frozen=True, slots=True)
class FourBits:
    """An affine map to the outputs of several such layers, side by side, for x [tokens, in]."""

    layers: tuple[Any, ...]
    dtype: torch.dtype  # of the product
    # Of the adapters beside the layers: [ranks, in] and [ranks, out]
    down: Tensor | None = None
    up: Tensor | None = None

    def __call__(self, x: Tensor) -> Tensor:
        x = x.to(self.dtype)
        products = [layer(x) for layer in self.layers]
        product = torch.cat(products, dim=-1) if len(products) > 1 else products[0]
        return add_adapters(product, x, self.down, self.up)


def add_adapters(product: Tensor, x: Tensor, down: Tensor | None, up: Tensor | None) -> Tensor:
    """The product of x with a base, changed to that with the adapters beside it."""
    if down is None or up is None:
        return product
    return product.addmm_(F.linear(x, down), up)
