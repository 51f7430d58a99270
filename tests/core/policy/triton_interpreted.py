"""The Triton kernels on a CPU, by Triton's interpreter: it runs what a device would run, number by
number.

Not collected by itself: the interpreter must be asked for before Triton is imported.
test_fp8_triton.py does that.
"""

import os
from random import Random

import pytest
import torch
from torch import nn

assert os.environ["TRITON_INTERPRET"] == "1"
from swarm_node.policy.fp8 import kernels, triton_kernels
from swarm_node.policy.fp8.linear import Fp8Linear
from swarm_node.policy.fp8.quantise import E4M3, Quantised, quantise
from tests.fp8_bound import (
    assert_alike_in_any_batch,
    assert_kept_in_fp8,
    assert_three_products_within_bound,
)

KERNEL = kernels.TRITON
DRAWN = Random(0)
SHAPES = [
    (1, 1),
    (1, 128),
    (130, 257),
    (17, 96),
    *((DRAWN.randint(1, 200), DRAWN.randint(1, 400)) for _ in range(3)),
]
TRIPLES = [(1, 1, 1), (1, 72, 128), (16, 40, 17), (130, 72, 257), (70, 130, 256)]
TRIPLES += [(DRAWN.randint(1, 150), DRAWN.randint(1, 150), DRAWN.randint(1, 400)) for _ in range(3)]


def assert_as_the_reference(x: torch.Tensor, side: int) -> None:
    ours, exact = triton_kernels.quantise(x, side), quantise(x, side)
    assert torch.equal(ours.values.view(torch.uint8), exact.values.view(torch.uint8))
    assert torch.equal(ours.scales, exact.scales)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("side", [1, 128])
def test_it_quantises_bit_for_bit_as_the_reference(shape, side) -> None:
    torch.manual_seed(shape[0])
    x = torch.randn(shape) * torch.exp(2 * torch.randn(shape[0], 1))
    for view in (x, x.bfloat16(), x.half(), torch.randn(shape[1], shape[0]).t()):
        assert_as_the_reference(view, side)


def test_every_tie_between_numbers_of_the_format_falls_as_in_torch() -> None:
    numbers = torch.arange(0x7F, dtype=torch.uint8).view(E4M3).float()
    ties = (numbers[1:] + numbers[:-1]) / 2
    around = torch.cat([numbers, *(ties.nextafter(ties + way) for way in (-1, 0, 1))])
    rows = torch.cat([around, -around, torch.zeros(-2 * len(around) % 127)]).view(-1, 127)
    pinned = torch.cat([torch.full((len(rows), 1), 448.0), rows], dim=1)  # 448 makes each scale 1
    assert torch.equal(quantise(pinned).scales, torch.ones(len(rows), 1))
    assert_as_the_reference(pinned, 1)


def test_scales_step_where_the_references_do() -> None:
    tops = 448 * 2.0 ** torch.arange(-134, 119, dtype=torch.float32)
    largest = torch.cat(
        [tops, tops.nextafter(torch.zeros(1)), tops.nextafter(torch.tensor(torch.inf))]
    )
    assert_as_the_reference(
        torch.cat([largest[:, None], largest[:, None] / 3, -largest[:, None] / 700], dim=1), 1
    )


def test_zeros_one_huge_number_and_numbers_that_are_nearly_zero() -> None:
    x = torch.randn(130, 300)
    x[:, :128], x[5, 130], x[7, 140], x[9, 256:] = 0.0, 3e38, -1e30, 1e-42
    x[11, 3] = -0.0
    for side in (1, 128):
        assert_as_the_reference(x, side)


@pytest.mark.parametrize("wrong", [-torch.inf, torch.nan])
def test_a_block_that_is_not_finite_is_nan_throughout(wrong) -> None:
    x, right = torch.randn(200, 300), quantise(torch.randn(20, 300))
    x[140, 130] = wrong
    for side in (1, 128):
        ours, exact = triton_kernels.quantise(x, side), quantise(x, side)
        torch.testing.assert_close(ours.exact, exact.exact, rtol=0, atol=0, equal_nan=True)
        product = triton_kernels.product(right, ours, torch.float32)
        torch.testing.assert_close(
            product, kernels.reference(right, exact, torch.float32), equal_nan=True
        )
        assert product.isnan().sum() == 20 * (1 if side == 1 else 72)


@pytest.mark.parametrize("shape", TRIPLES)
@pytest.mark.parametrize("side", [1, 128])
def test_it_multiplies_as_the_reference(shape, side) -> None:
    rows, columns, reduced = shape
    torch.manual_seed(rows)
    left, right = torch.randn(rows, reduced), torch.randn(columns, reduced)
    left[: rows // 3, : reduced // 2], left[-1, -1] = 0.0, 1e3
    a, b = quantise(left), quantise(right, side)
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        ours, exact = triton_kernels.product(a, b, dtype), kernels.reference(a, b, dtype)
        assert (ours.shape, ours.dtype) == (exact.shape, exact.dtype)
        step = torch.finfo(dtype).eps
        sizes = a.exact.abs() @ b.exact.abs().t()
        assert (
            (ours.float() - exact.float()).abs() <= step * exact.float().abs() + 1e-5 * sizes
        ).all()


def test_operands_may_be_quantised_by_either_and_lie_anyhow_in_memory() -> None:
    dy, weight = torch.randn(70, 257), torch.randn(257, 96)
    exact = kernels.reference(quantise(dy), quantise(weight, 128).transposed(), torch.float32)
    for one in (quantise, triton_kernels.quantise):
        for other in (quantise, triton_kernels.quantise):
            left, right = one(dy, 1), other(weight, 128).transposed()
            torch.testing.assert_close(triton_kernels.product(left, right, torch.float32), exact)


@pytest.mark.parametrize(
    ("tokens", "inputs", "outputs"), [(5, 7, 3), (1, 128, 128), (130, 257, 200)]
)
def test_the_three_products_of_a_layer_are_within_the_bound_of_e4m3(
    tokens, inputs, outputs
) -> None:
    torch.manual_seed(tokens)
    assert_three_products_within_bound(
        Fp8Linear(nn.Linear(inputs, outputs), KERNEL, active=True), tokens
    )


def test_what_is_kept_is_fp8_and_a_token_comes_out_alike_whoever_is_in_the_batch() -> None:
    assert_kept_in_fp8(Fp8Linear(nn.Linear(256, 64), KERNEL, active=True))
    assert_alike_in_any_batch(Fp8Linear(nn.Linear(200, 50), KERNEL, active=True))


def test_the_probe_takes_it_and_nothing_that_quantises_or_multiplies_otherwise() -> None:
    cpu = torch.device("cpu")
    assert kernels.works(KERNEL, cpu)
    coarser = kernels.Kernel("", kernels.by_triton, lambda x, side=1: nudged(quantise(x, side)))
    larger = kernels.Kernel(
        "", lambda left, right, dtype: kernels.by_triton(left, right, dtype) * 1.1
    )
    assert not kernels.works(coarser, cpu) and not kernels.works(larger, cpu)


def nudged(quantised: Quantised) -> Quantised:
    """The same matrix with one number changed."""
    values = quantised.values.clone()
    values.view(torch.uint8)[1, 2] ^= 1
    return Quantised(values, quantised.scales, quantised.side)
