"""Quantises matrices and multiplies them: a reference that runs anywhere, and kernels for devices
that multiply E4M3. A kernel is used only after it has given the reference's results on this very
device, never by the device's name.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor

from swarm_node.common.errors import UserError
from swarm_node.policy.fp8.quantise import BLOCK, Quantised, quantise

Product = Callable[[Quantised, Quantised, torch.dtype], Tensor]
Quantiser = Callable[..., Quantised]  # of a matrix, and how many rows share a scale


@dataclass(frozen=True, slots=True)
class Kernel:
    """`product(left [M, K], right [N, K], dtype)` is left @ right^T, [M, N]; both are scaled along
    K.

    Its `quantise` gives what that of `quantise.py` gives, bit for bit.
    """

    name: str
    product: Product
    quantise: Quantiser = quantise


def reference(left: Quantised, right: Quantised, dtype: torch.dtype) -> Tensor:
    """Exact products of what the operands stand for, added up in float32."""
    return (left.exact @ right.exact.t()).to(dtype)


def by_cublas(left: Quantised, right: Quantised, dtype: torch.dtype) -> Tensor:
    """Multiplies with cuBLAS, on GPUs of the generation Hopper. That is 1.1 to 1.6 times as fast as
    products in bfloat16, and 1.8 to 2.7 times as fast as those of Triton (on an H200).
    """
    kinds = {1: F.ScalingType.BlockWise1x128, BLOCK: F.ScalingType.BlockWise128x128}
    (a, a_scales), (b, b_scales) = left.filled, right.filled
    y = F.scaled_mm(
        a, b.t(), a_scales, kinds[left.side], b_scales, kinds[right.side], output_dtype=dtype
    )
    return y[: left.values.shape[0], : right.values.shape[0]]


def by_triton(left: Quantised, right: Quantised, dtype: torch.dtype) -> Tensor:
    """Multiplies with a kernel in Triton, on GPUs of the generation Ada or later."""
    # Torch's builds for CUDA alone bring Triton along
    from swarm_node.policy.fp8 import triton_kernels

    return triton_kernels.product(left, right, dtype)


def in_one(x: Tensor, side: int = 1) -> Quantised:
    """`quantise` as one Triton kernel instead of a dozen of torch's."""
    from swarm_node.policy.fp8 import triton_kernels

    return triton_kernels.quantise(x, side)


REFERENCE = Kernel("reference: fake quantisation, float32 products", reference)
CUBLAS = Kernel("cuBLAS, 1x128 and 128x128 scales", by_cublas, in_one)
TRITON = Kernel("Triton, 1x128 and 128x128 scales", by_triton, in_one)


@cache
def choose(device: torch.device) -> Kernel:
    """The fastest kernel that works on this device. A CPU emulates FP8.

    Raises:
        UserError: none works here.
    """
    if device.type == "cpu":
        return REFERENCE
    for kernel in (CUBLAS, TRITON):
        if device.type == "cuda" and works(kernel, device):
            return kernel
    raise UserError(f"no FP8 kernel works on {device}: use --fp8.precision bf16")


def works(kernel: Kernel, device: torch.device) -> bool:
    """Whether `kernel` matches the reference, for the operands of all three products and sizes that
    fill no tile.
    """
    numbers = torch.Generator().manual_seed(0)
    try:
        for rows, columns, reduced, side in ((200, 130, 300, BLOCK), (130, 72, 257, 1)):
            # the left one lies along its columns, as the operands of a weight's gradient do
            left = torch.randn(reduced, rows, generator=numbers).to(device).t()
            right = torch.randn(columns, reduced, generator=numbers).to(device)
            operands = quantise(left), quantise(right, side)
            quantised = kernel.quantise(left), kernel.quantise(right, side)
            if not all(map(same, quantised, operands)):
                return False
            ours, exact = (
                kernel.product(*quantised, torch.float32),
                reference(*operands, torch.float32),
            )
            if not float((ours - exact).norm()) <= 1e-2 * float(exact.norm()):
                return False
    except Exception:  # noqa: BLE001  what a device, driver or torch lacks shows in errors of any kind
        return False
    return True


def same(ours: Quantised, theirs: Quantised) -> bool:
    """Whether both are equal, bit for bit."""
    values = torch.equal(
        ours.values.contiguous().view(torch.uint8), theirs.values.contiguous().view(torch.uint8)
    )
    return values and torch.equal(ours.scales, theirs.scales)
