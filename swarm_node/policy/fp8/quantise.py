"""Block-scaled FP8: numbers that are multiplied together share a scale that fits their size.

Left operands have a scale per row and 128 columns, weights one per 128 x 128 block (Jet-RL, arXiv
2601.14243). A scale is the largest magnitude of its block over that of the type (448 for E4M3),
rounded up to a power of two. Blocks at the edges are smaller; one with an infinity or NaN in it is
NaN throughout. A scale of an activation covers one token, so a token is quantised alike in any
batch.

Jet-RL's scales are not powers of two. But a decoder and a training forward add in different orders,
so what they quantise differs in the last bits. A number mostly rounds to the same FP8 value
nevertheless, but a scale that follows the largest number passes those bits on to its whole block. A
power of two loses nothing: rounding is relative in FP8.
"""

from dataclasses import dataclass
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor

E4M3 = torch.float8_e4m3fn
LARGEST = torch.finfo(E4M3).max  # what the largest number of a block becomes at most
# Smallest scale: that of blocks that are zero or nearly zero
SMALLEST = torch.finfo(torch.float32).tiny
BLOCK = 128  # columns that share a scale, and rows of a weight
ALIGNED = 16  # numbers that are read at once, if every row begins at a multiple of as many


@dataclass(frozen=True)
class Quantised:
    """A matrix [rows, columns] in FP8. `values[i, j] * scales[i // side, j // BLOCK]` is what it
    stands for.
    """

    values: Tensor  # [rows, columns]
    scales: Tensor  # float32 [ceil(rows / side), ceil(columns / BLOCK)]
    side: int

    @cached_property
    def exact(self) -> Tensor:
        """float32 [rows, columns] it stands for; kept, since the reference multiplies by it again
        and again.
        """
        rows, columns = self.values.shape
        per_row = self.scales.repeat_interleave(self.side, dim=0)[:rows]
        return self.values.float() * per_row.repeat_interleave(BLOCK, dim=1)[:, :columns]

    @cached_property
    def along_rows(self) -> Tensor:
        """The values with every row in one piece, as tensor cores read them; kept, if that took a
        copy.
        """
        return self.values if self.values.stride(1) == 1 else self.values.contiguous()

    @cached_property
    def filled(self) -> tuple[Tensor, Tensor]:
        """Values and scales as cuBLAS reads them: zeros up to a multiple of `ALIGNED` rows and
        `BLOCK` columns; scales of rows [rows, groups], one row after the other, those of blocks
        [groups up to a multiple of 4, blocks].
        """
        more_rows, more_columns = -self.values.shape[0] % ALIGNED, -self.values.shape[1] % BLOCK
        values = self.along_rows
        if more_rows or more_columns:
            values = F.pad(values.view(torch.uint8), (0, more_columns, 0, more_rows)).view(E4M3)
        if self.side == 1:
            return values, F.pad(self.scales.t(), (0, more_rows)).contiguous().t()
        return values, F.pad(self.scales, (0, -self.scales.shape[1] % 4)).contiguous().t()

    def transposed(self) -> "Quantised":
        """A weight's transpose: its blocks are square, so it has the same numbers forwards and
        backwards.
        """
        return Quantised(self.values.t(), self.scales.t(), BLOCK)


def quantise(x: Tensor, side: int = 1) -> Quantised:
    """`x` [rows, columns] of any float type, with a scale for `side` rows and `BLOCK` columns."""
    rows, columns = x.shape
    padded = F.pad(x.float(), (0, -columns % BLOCK, 0, -rows % side))
    blocks = padded.view(padded.shape[0] // side, side, padded.shape[1] // BLOCK, BLOCK)
    largest = blocks.abs().amax(dim=(1, 3), keepdim=True)
    scales = _power_above((largest / LARGEST).clamp_min(SMALLEST))
    scales = torch.where(largest.isfinite(), scales, torch.nan)
    values = (blocks / scales).to(E4M3).view(padded.shape)[:rows, :columns]
    return Quantised(values, scales[:, 0, :, 0], side)


def _power_above(x: Tensor) -> Tensor:
    """The least power of two that is not below `x`, positive normal float32: up to the next number
    without mantissa.
    """
    return ((x.view(torch.int32) + 0x7FFFFF) & 0x7F800000).view(torch.float32)
