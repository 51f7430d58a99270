"""Quantising and the products as Triton kernels: for devices with E4M3 tensor cores, known to torch
or not.

They compute what `quantise` and `reference` compute: scales and values bit for bit, products except
for the order of sums. A sum is taken in the same steps for any tile, and never split among
programs. So a token's numbers depend neither on its batch nor on its place there.

Import this module only where it is used: of torch's builds, only those for CUDA bring Triton along.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from swarm_node.policy.fp8.quantise import ALIGNED, BLOCK, E4M3, Quantised

GROUP = tl.constexpr(BLOCK)
# Rows of tiles that are worked on side by side: what they read is still in the cache
BAND = tl.constexpr(8)

# Rows, columns, warps and stages of a tile, by the largest number of rows: the fastest of eight on
# an H200 for which no card spills registers. Fixed: generation meets new numbers of rows all the
# time and could not wait for trials.
TILES = {16: (16, 64, 4, 4), 64: (64, 64, 4, 5)}
LARGE = (64, 128, 4, 3)


@triton.jit
def _e4m3(magnitude):
    """Bits of float32 numbers from 0 to 448 to those of the nearest E4M3 numbers, ties to even.

    Written out, since Triton's own conversion rounds twice on Ada in some releases, and wrongly in
    the interpreter. From 2^-6 on the last 20 bits go; below are multiples of 2^-9, which is the
    last place of 2^14 in float32.
    """
    usual = ((magnitude + 0x7FFFF + ((magnitude >> 20) & 1)) >> 20) - (120 << 3)
    small = (magnitude.to(tl.float32, bitcast=True) + 16384.0).to(tl.int32, bitcast=True) - (
        141 << 23
    )
    return tl.where(magnitude < (121 << 23), small, usual)


@triton.jit
def quantise_kernel(
    x, values, scales, rows, columns, x_row, x_column, values_row, scales_row, scales_group,
    SIDE: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """A program does TILE rows of one group of columns. They have a scale each, or one if SIDE is
    TILE.

    Magnitudes are compared as integers, which have the same order, with NaN last. E4M3 ends at 448
    = 1.75 * 2^8: the scale is the power of two 8 below that of the largest number, 7 if the
    mantissa is above 1.75.
    """
    i = tl.program_id(0) * TILE + tl.arange(0, TILE)
    j = tl.program_id(1) * GROUP + tl.arange(0, GROUP)
    inside = (i < rows)[:, None] & (j < columns)[None, :]
    places = i.to(tl.int64)[:, None] * x_row + j.to(tl.int64)[None, :] * x_column
    bits = tl.load(x + places, inside, 0.0).to(tl.float32).to(tl.int32, bitcast=True)
    magnitude = bits & 0x7FFFFFFF

    largest = tl.max(magnitude, axis=1)
    if SIDE > 1:
        largest = tl.max(largest, axis=0) + tl.zeros_like(largest)
    power = tl.maximum(((largest + 0x1FFFFF) & 0x7F800000) - (8 << 23), 1 << 23)
    finite = largest < 0x7F800000
    scale = tl.where(finite, power, 0x7FC00000).to(tl.float32, bitcast=True)
    inverse = ((254 << 23) - power).to(tl.float32, bitcast=True)

    scaled = (magnitude.to(tl.float32, bitcast=True) * inverse[:, None]).to(tl.int32, bitcast=True)
    numbers = tl.where(finite[:, None], _e4m3(scaled), 0x7F) | ((bits >> 24) & 0x80)
    tl.store(
        values + i.to(tl.int64)[:, None] * values_row + j[None, :], numbers.to(tl.uint8), inside
    )
    tl.store(
        scales + i // SIDE * scales_row + tl.program_id(1) * scales_group,
        scale,
        (i < rows) & (i % SIDE == 0),
    )


@triton.jit
def _multiplied(a, b):
    """The product of E4M3 numbers. They come as bytes, so that 0 can stand where there are none."""
    return tl.dot(a.to(tl.float8e4nv, bitcast=True), b.to(tl.float8e4nv, bitcast=True))


@triton.jit(do_not_specialize=["m"])
def product_kernel(
    left, right, y, left_scales, right_scales, m, n, k, left_row, right_row, y_row,
    left_scales_row, left_scales_group, right_scales_row, right_scales_group,
    SIDE: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, REST: tl.constexpr,
):  # fmt: skip
    """A program does one tile of y = left @ right^T, group by group of what is summed over.

    A group is summed up from zero, then scaled and added in float32: tensor cores add less exactly.
    The last group may be smaller if REST is not 0; it is then read in pieces of REST numbers, of
    which the last may reach beyond the row.
    """
    tile, across = tl.swizzle2d(
        tl.program_id(0), tl.program_id(1), tl.num_programs(0), tl.num_programs(1), BAND
    )
    i, j, along = tl.arange(0, ROWS), tl.arange(0, COLUMNS), tl.arange(0, GROUP)
    i_inside, j_inside = (tile * ROWS + i < m)[:, None], (across * COLUMNS + j < n)[None, :]
    left += (tile * ROWS).to(tl.int64) * left_row
    right += (across * COLUMNS).to(tl.int64) * right_row
    left_places = i[:, None] * left_row + along[None, :]
    right_places = j[None, :] * right_row + along[:, None]
    left_scales += (tile * ROWS + i)[:, None] * left_scales_row
    right_scales += (across * COLUMNS + j)[None, :] // SIDE * right_scales_row

    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for _ in range(k // GROUP):
        a, b = tl.load(left + left_places, i_inside, 0), tl.load(right + right_places, j_inside, 0)
        left_scale, right_scale = (
            tl.load(left_scales, i_inside, 0.0),
            tl.load(right_scales, j_inside, 0.0),
        )
        total += _multiplied(a, b) * left_scale * right_scale
        left += GROUP
        right += GROUP
        left_scales += left_scales_group
        right_scales += right_scales_group
    if REST > 0:
        numbers = along < k % GROUP
        pieces = along < tl.cdiv(k % GROUP, REST) * REST
        a = tl.load(left + left_places, i_inside & pieces[None, :], 0)
        b = tl.load(right + right_places, j_inside & pieces[:, None], 0)
        a, b = tl.where(numbers[None, :], a, 0), tl.where(numbers[:, None], b, 0)
        left_scale, right_scale = (
            tl.load(left_scales, i_inside, 0.0),
            tl.load(right_scales, j_inside, 0.0),
        )
        total += _multiplied(a, b) * left_scale * right_scale
    y += (tile * ROWS).to(tl.int64) * y_row + across * COLUMNS
    tl.store(y + i[:, None] * y_row + j[None, :], total.to(y.dtype.element_ty), i_inside & j_inside)


def quantise(x: Tensor, side: int = 1) -> Quantised:
    """Quantises as `quantise.quantise` does, in one kernel, also a transposed view. `side` is 1 or
    BLOCK.
    """
    rows, columns = x.shape
    groups, tile = triton.cdiv(columns, BLOCK), side if side > 1 else 64 if rows > 16 else 16
    stride = triton.cdiv(columns, ALIGNED) * ALIGNED
    values = torch.empty(rows, stride, dtype=E4M3, device=x.device)[:, :columns]
    scales = torch.empty(groups, triton.cdiv(rows, side), dtype=torch.float32, device=x.device).t()
    with torch.cuda.device_of(x):
        quantise_kernel[(triton.cdiv(rows, tile), groups)](
            x, values.view(torch.uint8), scales, rows, columns, *x.stride(), values.stride(0),
            *scales.stride(), SIDE=side, TILE=tile, num_warps=tile // 16 if side > 1 else 4,
        )  # fmt: skip
    return Quantised(values, scales, side)


def product(left: Quantised, right: Quantised, dtype: torch.dtype) -> Tensor:
    """`left` @ `right`^T, [M, N]. The left one has a scale for every row."""
    a, b = left.along_rows, right.along_rows
    (m, k), n = a.shape, b.shape[0]
    tile_rows, tile_columns, warps, stages = next(
        (tile for most, tile in TILES.items() if m <= most), LARGE
    )
    aligned = a.stride(0) % ALIGNED == 0 and b.stride(0) % ALIGNED == 0
    rest = 0 if k % BLOCK == 0 else ALIGNED if aligned else 1
    y = torch.empty(m, n, dtype=dtype, device=a.device)
    with torch.cuda.device_of(y):
        product_kernel[(triton.cdiv(m, tile_rows), triton.cdiv(n, tile_columns))](
            a.view(torch.uint8), b.view(torch.uint8), y, left.scales, right.scales, m, n, k,
            a.stride(0), b.stride(0), y.stride(0), *left.scales.stride(), *right.scales.stride(),
            SIDE=right.side, ROWS=tile_rows, COLUMNS=tile_columns, REST=rest,
            num_warps=warps, num_stages=stages,
        )  # fmt: skip
    return y
