"""What reaches torch's FP8 products, where there is no device to run them: torch's own checks of shape and layout
on tensors without memory, then the numbers by a stand-in that reads scales as these checks describe them."""

from contextlib import nullcontext

import pytest
import torch
import torch.nn.functional as F
from transformers import AttentionInterface

from swarm_node.extensions.fp8 import kernels
from swarm_node.extensions.fp8.kernels import Kernel, by_blocks, by_rows
from swarm_node.extensions.fp8.quantise import BLOCKS, ROWS, quantise
from swarm_node.policy import tree_attention

SHAPES = [(200, 130, 300), (1, 896, 896), (8, 72, 257), (256, 128, 640)]  # rows left and right, what is summed over
TORCH = [Kernel("blocks", BLOCKS, by_blocks), Kernel("rows", ROWS, by_rows)]
MODES = {1: "BlockWise1x128", 128: "BlockWise128x128"}


def operands(kernel, shape, side, device="cpu"):
    torch.manual_seed(0)
    left, right = (torch.randn(rows, shape[2], device=device) for rows in shape[:2])
    return quantise(left, kernel.recipe), quantise(right, kernel.recipe, side)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kernel", TORCH, ids=["blocks", "rows"])
def test_torch_accepts_operands_and_scales_as_they_are_laid_out(kernel, shape) -> None:
    for side in {kernel.recipe.side, 1}:  # forwards with a weight; gradient of a weight
        left, right = operands(kernel, shape, side, "meta")
        product = kernel.product(left, right, torch.bfloat16)
        assert (product.shape, product.dtype) == (shape[:2], torch.bfloat16)


def test_torch_refuses_scales_as_they_lie_in_memory(monkeypatch) -> None:
    """So the test above would see a wrong layout."""
    monkeypatch.setattr(kernels, "_laid_out", lambda operand: operand.scales)
    with pytest.raises(RuntimeError, match="blockwise scaling"):
        TORCH[0].product(*operands(TORCH[0], (256, 256, 256), 128, "meta"), torch.bfloat16)


def scaled_mm(a, b, *, scale_a, scale_recipe_a, scale_b, scale_recipe_b, output_dtype):
    """a [M, K] row by row, b [K, N] column by column; scales [rows, K / 128], or [K / 128 and up, N / 128]."""
    assert a.is_contiguous() and b.t().is_contiguous() and a.shape[1] % 128 == 0 and b.shape[1] % 16 == 0
    groups = a.shape[1] // 128
    full = []
    for operand, scale, recipe in ((a, scale_a, scale_recipe_a), (b.t(), scale_b, scale_recipe_b)):
        by_row = scale if recipe.name == MODES[1] else scale[:groups].t().repeat_interleave(128, 0)
        assert recipe.name in MODES.values() and by_row.shape == (operand.shape[0], groups)
        full.append(operand.float() * by_row.repeat_interleave(128, 1))
    return (full[0] @ full[1].t()).to(output_dtype)


def scaled_mm_by_rows(a, b, *, scale_a, scale_b, out_dtype):
    assert scale_a.shape == (a.shape[0], 1) and scale_b.shape == (1, b.shape[1])
    return ((a.float() * scale_a) @ (b.float() * scale_b)).to(out_dtype)


@pytest.mark.parametrize("kernel", TORCH, ids=["blocks", "rows"])
def test_a_kernel_that_reads_that_layout_gives_what_the_reference_gives(kernel, monkeypatch) -> None:
    monkeypatch.setattr(F, "scaled_mm", scaled_mm)
    monkeypatch.setattr(torch, "_scaled_mm", scaled_mm_by_rows)
    assert kernels.works(kernel, torch.device("cpu"))
    for shape in SHAPES:
        for side in {kernel.recipe.side, 1}:
            left, right = operands(kernel, shape, side)
            ours, exact = kernel.product(left, right, torch.float32), kernels.reference(left, right, torch.float32)
            torch.testing.assert_close(ours, exact, rtol=2**-8, atol=1e-3)


@pytest.mark.parametrize(
    ("working", "taken"),
    [
        ({"by_blocks", "by_triton", "by_rows", "in_one"}, "scaled_mm, 1x128 and 128x128 scales, quantised by Triton"),
        ({"by_blocks", "by_rows"}, "scaled_mm, 1x128 and 128x128 scales"),  # Hopper without Triton
        ({"by_triton", "by_rows", "in_one"}, "Triton, 1x128 and 128x128 scales"),  # Ada, consumer Blackwell
        ({"by_rows"}, "scaled_mm, scales by row"),
    ],
)
def test_block_scales_come_before_scales_by_row_and_torchs_before_ours(working, taken, monkeypatch) -> None:
    def works(kernel, device) -> bool:
        return {kernel.product.__name__, kernel.quantiser.__name__} <= working | {"quantise"}

    monkeypatch.setattr(kernels, "works", works)
    assert kernels.choose.__wrapped__(torch.device("cuda"), "auto").name == taken


@pytest.mark.parametrize("size", [(130, 257), (128, 256)])
def test_a_weight_seen_backwards_is_laid_out_too(size, monkeypatch) -> None:
    monkeypatch.setattr(F, "scaled_mm", scaled_mm)
    kernel = TORCH[0]
    weight = quantise(torch.randn(size), kernel.recipe, kernel.recipe.side).transposed()
    dy = quantise(torch.randn(9, size[0]), kernel.recipe)
    exact = kernels.reference(dy, weight, torch.float32)
    torch.testing.assert_close(kernel.product(dy, weight, torch.float32), exact, rtol=2**-8, atol=1e-3)


def test_attention_off_a_cpu_gets_queries_keys_and_values_of_one_type(monkeypatch) -> None:
    """As under autocast: rotary embeddings leave queries and keys in float32, which torch's kernels refuse to mix."""
    monkeypatch.setattr(
        tree_attention.torch, "autocast", lambda *_, **__: nullcontext()
    )  # knows no device without memory
    q, k, v = (torch.empty(1, 4, 7, 8, device="meta", dtype=d) for d in (torch.float32, torch.float32, torch.bfloat16))
    with pytest.raises(RuntimeError, match="same dtype"):
        F.scaled_dot_product_attention(q, k, v)
    seen, _ = AttentionInterface()[tree_attention.ALIKE](torch.nn.Module(), q, k, v, None)
    assert (seen.shape, seen.dtype) == ((1, 7, 4, 8), torch.float32)
