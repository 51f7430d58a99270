"""Quantising and products of what was quantised: a reference that runs anywhere, and kernels where they agree with it.

A kernel is taken after it has given what the reference gives on this very device, never by the device's name. Torch's
own for scales by block are for Hopper alone; ours, in Triton, are for whatever multiplies E4M3.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor

from swarm_node.common.errors import UserError
from swarm_node.extensions.fp8.quantise import BLOCKS, ROWS, Quantised, Recipe, quantise

Product = Callable[[Quantised, Quantised, torch.dtype], Tensor]
Quantiser = Callable[[Tensor, Recipe, int], Quantised]
TILE = 128  # sizes that torch's kernels take are multiples of this


@dataclass(frozen=True, slots=True)
class Kernel:
    """`product(left [M, K], right [N, K], dtype)` is left @ right^T, [M, N]; both are scaled along K.

    `quantiser` gives what `quantise.quantise` gives, bit for bit.
    """

    name: str
    recipe: Recipe
    product: Product
    quantiser: Quantiser = quantise

    def quantise(self, x: Tensor, side: int = 1) -> Quantised:
        """`x` [rows, columns] with a scale for `side` rows and as many columns as the recipe says."""
        return self.quantiser(x, self.recipe, side)


def reference(left: Quantised, right: Quantised, dtype: torch.dtype) -> Tensor:
    """Exact products of what the operands stand for, added up in float32."""
    return (left.exact @ right.exact.t()).to(dtype)


def by_blocks(left: Quantised, right: Quantised, dtype: torch.dtype) -> Tensor:
    """torch.nn.functional.scaled_mm with scales of 1 x 128 and 128 x 128: Hopper with cuBLAS 12.9 or later.

    Zeros fill up the last tiles, which changes nothing. Not run so far: there was no such device.
    """
    from torch.nn.functional import ScalingType  # later than the oldest torch supported

    kind = {1: ScalingType.BlockWise1x128, TILE: ScalingType.BlockWise128x128}
    full = F.scaled_mm(
        _tiled(left.values),
        _tiled(right.along_rows).t(),
        scale_a=_laid_out(left),
        scale_recipe_a=kind[left.side],
        scale_b=_laid_out(right),
        scale_recipe_b=kind[right.side],
        output_dtype=torch.bfloat16,
    )
    return full[: left.values.shape[0], : right.values.shape[0]].to(dtype)


def by_rows(left: Quantised, right: Quantised, dtype: torch.dtype) -> Tensor:
    """torch._scaled_mm with one scale per row of either operand: Ada and later."""
    full = torch._scaled_mm(
        _tiled(left.values),
        _tiled(right.values).t(),
        scale_a=F.pad(left.scales, (0, 0, 0, -left.scales.shape[0] % TILE), value=1.0),
        scale_b=F.pad(right.scales, (0, 0, 0, -right.scales.shape[0] % TILE), value=1.0).t(),
        out_dtype=torch.bfloat16,
    )
    return full[: left.values.shape[0], : right.values.shape[0]].to(dtype)


def by_triton(left: Quantised, right: Quantised, dtype: torch.dtype) -> Tensor:
    """Our own, with scales of 1 x 128 and 128 x 128: Ada and later, consumer Blackwell too, where Triton is."""
    from swarm_node.extensions.fp8 import triton_kernels

    return triton_kernels.product(left, right, dtype)


def in_one(x: Tensor, recipe: Recipe, side: int) -> Quantised:
    """`quantise` as one Triton kernel instead of a dozen of torch's: BLOCKS only."""
    from swarm_node.extensions.fp8 import triton_kernels

    return triton_kernels.quantise(x, recipe, side)


REFERENCE = Kernel("reference: fake quantisation, float32 products", BLOCKS, reference)
FAST = (  # the first that works is taken
    Kernel("scaled_mm, 1x128 and 128x128 scales, quantised by Triton", BLOCKS, by_blocks, in_one),
    Kernel("scaled_mm, 1x128 and 128x128 scales", BLOCKS, by_blocks),
    Kernel("Triton, 1x128 and 128x128 scales", BLOCKS, by_triton, in_one),
    Kernel("scaled_mm, scales by row", ROWS, by_rows),
)


@cache
def choose(device: torch.device, wanted: str) -> Kernel:
    """The kernel for this device.

    Raises:
        UserError: `wanted` is "fast" and none of the fast ones works here.
    """
    if wanted == "reference":
        return REFERENCE
    for kernel in FAST:
        if device.type == "cuda" and works(kernel, device):
            return kernel
    if wanted == "auto" and device.type == "cpu":
        return REFERENCE
    raise UserError(f"no FP8 kernel works on {device}: take --fp8.precision bf16")


def works(kernel: Kernel, device: torch.device) -> bool:
    """Whether it gives what the reference gives, for the operands of all three products and sizes that fill no tile."""
    numbers = torch.Generator().manual_seed(0)
    try:
        for rows, columns, reduced, side in ((200, 130, 300, kernel.recipe.side), (130, 72, 257, 1)):
            # one lies along its columns, as the operands of the gradient of a weight do
            left = torch.randn(reduced, rows, generator=numbers).to(device).t()
            right = torch.randn(columns, reduced, generator=numbers).to(device)
            operands = quantise(left, kernel.recipe), quantise(right, kernel.recipe, side)
            quantised = kernel.quantise(left), kernel.quantise(right, side)
            if not all(map(same, quantised, operands)):
                return False
            ours, exact = kernel.product(*quantised, torch.float32), reference(*operands, torch.float32)
            if not float((ours - exact).norm()) <= 1e-2 * float(exact.norm()):  # torch's kernels give bfloat16
                return False
    except Exception:  # noqa: BLE001  what a device, driver or torch lacks shows in errors of any kind
        return False
    return True


def same(ours: Quantised, theirs: Quantised) -> bool:
    """Bit for bit."""
    values = torch.equal(ours.values.contiguous().view(torch.uint8), theirs.values.contiguous().view(torch.uint8))
    return values and torch.equal(ours.scales, theirs.scales)


def _tiles(size: int) -> int:
    return -(-size // TILE)


def _tiled(values: Tensor) -> Tensor:
    """Filled up with zeros to whole tiles, row by row in memory."""
    rows, columns = values.shape
    if rows % TILE == 0 and columns % TILE == 0:
        return values.contiguous()
    full = torch.zeros(_tiles(rows) * TILE, _tiles(columns) * TILE, dtype=torch.uint8, device=values.device)
    full[:rows, :columns] = (
        values.view(torch.uint8) if values.is_contiguous() else values.contiguous().view(torch.uint8)
    )
    return full.view(values.dtype)


def _laid_out(operand: Quantised) -> Tensor:
    """Scales as cuBLAS reads them: by row and group, column-major; by block, transposed, groups in fours."""
    scales = operand.scales
    if operand.side == 1:
        rows = _tiles(operand.values.shape[0]) * TILE
        return F.pad(scales, (0, 0, 0, rows - scales.shape[0]), value=1.0).t().contiguous().t()
    return F.pad(scales, (0, -scales.shape[1] % 4), value=1.0).t()
