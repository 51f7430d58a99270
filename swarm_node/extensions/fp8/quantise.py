"""Block-scaled FP8: numbers that are multiplied together share a scale of their own size.

Left operands have a scale per row and 128 columns, weights one per 128 x 128 block (Jet-RL, arXiv 2601.14243). A scale
is the largest magnitude of its block over that of the type (448 for E4M3), rounded up to a power of two. Blocks at the
edges are smaller; one with an infinity or NaN in it is NaN throughout. A scale of an activation covers one token, so a
token is quantised alike whoever is in the batch.

Why powers of two, which Jet-RL has not: a decoder and a training forward add in another order, so that what they
quantise differs in the last bits. A number mostly falls to the same of few values nevertheless, but a scale that
follows the largest number passes those bits on to its whole block. Nothing is lost: rounding is relative in FP8.
"""

from dataclasses import dataclass
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor

E4M3 = torch.float8_e4m3fn
SMALLEST = torch.finfo(torch.float32).tiny  # of a scale: of blocks that are zero, and of those that nearly are


@dataclass(frozen=True, slots=True)
class Recipe:
    """How fine a quantisation is. Both graphs, writing and training, use the same one."""

    dtype: torch.dtype = E4M3
    group: int = 128  # columns that share a scale; 0: the whole row
    side: int = 128  # rows of a weight that share a scale
    powers: bool = True  # scales are powers of two; False: as published

    @property
    def largest(self) -> float:
        """Number of the type that the largest of a block becomes."""
        return torch.finfo(self.dtype).max

    def rounded(self, x: Tensor) -> Tensor:
        """Float32 within +-largest to the nearest numbers of the type."""
        return x.to(self.dtype)


BLOCKS = Recipe()
ROWS = Recipe(group=0, side=1)  # for devices whose products know one scale per row only


@dataclass(frozen=True)
class Quantised:
    """A matrix [rows, columns] in FP8. `values[i, j] * scales[i // side, j // group]` is what it stands for."""

    values: Tensor  # [rows, columns]
    scales: Tensor  # float32 [ceil(rows / side), ceil(columns / group)]
    side: int
    group: int

    @cached_property
    def exact(self) -> Tensor:
        """float32 [rows, columns] it stands for; kept, since the reference multiplies by it again and again."""
        return dequantise(self)

    @cached_property
    def along_rows(self) -> Tensor:
        """The values with every row in one piece, as tensor cores read them; kept, if that took a copy."""
        return self.values if self.values.stride(1) == 1 else self.values.contiguous()

    def transposed(self) -> "Quantised":
        """Of its transpose: the same numbers, so a weight is one thing forwards and backwards."""
        return Quantised(self.values.t(), self.scales.t(), side=self.group, group=self.side)


def quantise(x: Tensor, recipe: Recipe, side: int = 1) -> Quantised:
    """`x` [rows, columns] of any float type, with a scale for `side` rows and `recipe.group` columns."""
    rows, columns = x.shape
    group = recipe.group or columns
    padded = F.pad(x.float(), (0, -columns % group, 0, -rows % side))
    blocks = padded.view(padded.shape[0] // side, side, padded.shape[1] // group, group)
    largest = blocks.abs().amax(dim=(1, 3), keepdim=True)
    scales = (largest / recipe.largest).clamp_min(SMALLEST)
    if recipe.powers:
        scales = _power_above(scales)
    scales = torch.where(largest.isfinite(), scales, torch.nan)
    values = recipe.rounded(blocks / scales).view(padded.shape)[:rows, :columns]
    return Quantised(values, scales[:, 0, :, 0], side, group)


def _power_above(x: Tensor) -> Tensor:
    """The least power of two that is not below `x`, positive normal float32: up to the next number without mantissa."""
    return ((x.view(torch.int32) + 0x7FFFFF) & 0x7F800000).view(torch.float32)


def dequantise(quantised: Quantised) -> Tensor:
    """float32 [rows, columns]."""
    rows, columns = quantised.values.shape
    per_row = quantised.scales.repeat_interleave(quantised.side, dim=0)[:rows]
    scales = per_row.repeat_interleave(quantised.group, dim=1)[:, :columns]
    return quantised.values.float() * scales
