"""Block-scaled FP8: numbers that are multiplied together share a scale of their own size.

Left operands have a scale per row and 128 columns, weights one per 128 x 128 block (Jet-RL, arXiv 2601.14243). A scale
is the largest magnitude of its block over that of the type (448 for E4M3). Blocks at the edges are smaller. A scale of
an activation covers one token only, so a token is quantised alike whoever is in the batch.
"""

from dataclasses import dataclass
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor

E4M3 = torch.float8_e4m3fn


@dataclass(frozen=True, slots=True)
class Recipe:
    """How fine a quantisation is. Both graphs, writing and training, use the same one."""

    dtype: torch.dtype = E4M3
    group: int = 128  # columns that share a scale; 0: the whole row
    side: int = 128  # rows of a weight that share a scale


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
    scales = torch.where(largest == 0, 1.0, largest / torch.finfo(recipe.dtype).max)
    values = (blocks / scales).to(recipe.dtype).view(padded.shape)[:rows, :columns]
    return Quantised(values, scales[:, 0, :, 0], side, group)


def dequantise(quantised: Quantised) -> Tensor:
    """float32 [rows, columns]."""
    rows, columns = quantised.values.shape
    per_row = quantised.scales.repeat_interleave(quantised.side, dim=0)[:rows]
    scales = per_row.repeat_interleave(quantised.group, dim=1)[:, :columns]
    return quantised.values.float() * scales
