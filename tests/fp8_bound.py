"""Error bounds of FP8."""

import torch
from torch import Tensor

from swarm_node.policy.fp8.quantise import BLOCK, quantise

HALF_STEP = 2.0**-4  # of E4M3: largest relative error of rounding, 3 bits after the point
# Largest absolute error where a number is too small for that, in units of its scale
SMALLEST = 2.0**-10


def rounding(x: Tensor, side: int) -> Tensor:
    """Bound of the error of every number of `x` in FP8."""
    quantised = quantise(x, side)
    scales = quantised.scales.repeat_interleave(quantised.side, 0)[: x.shape[0]]
    scales = scales.repeat_interleave(BLOCK, 1)[:, : x.shape[1]]
    return HALF_STEP * x.abs().double() + SMALLEST * scales.double()


def assert_within_bound(ours: Tensor, left: Tensor, right: Tensor, side: int) -> None:
    """`ours` differs from left @ right^T in float64 by no more than rounding both operands can
    cause.
    """
    a, b = left.double().abs(), right.double().abs()
    bound = (a + rounding(left, 1)) @ (b + rounding(right, side)).T - a @ b.T
    error = (ours.double() - left.double() @ right.double().T).abs()
    assert (error <= bound + 1e-5 * (a @ b.T)).all()
    if left.shape[1] > 1:  # a single number is its own scale
        assert error.norm() > 1e-4 * (a @ b.T).norm()  # it is FP8 at all


def assert_three_products_within_bound(layer, tokens: int) -> None:
    """The products of an Fp8Linear with a bias: forward, gradient of its input, gradient of its
    weight.
    """
    x = torch.randn(tokens, layer.in_features) * torch.rand(tokens, 1) * 9
    dy = torch.randn(tokens, layer.out_features)
    x.requires_grad_()
    y = layer(x)
    y.backward(dy)
    weight = layer.weight.detach()
    assert_within_bound(y.detach() - layer.bias.detach(), x.detach(), weight, BLOCK)
    assert_within_bound(x.grad, dy, weight.t(), BLOCK)
    assert_within_bound(layer.weight.grad, dy.t(), x.detach().t(), 1)
    torch.testing.assert_close(layer.bias.grad, dy.sum(0))


def assert_kept_in_fp8(layer) -> None:
    """For backward, a layer keeps about one byte for each number of tokens that fill whole
    blocks.
    """
    kept: list[Tensor] = []
    x = torch.randn(384, layer.in_features, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: (kept.append(t), t)[1], lambda t: t):
        layer(x)
    assert sum(t.untyped_storage().nbytes() for t in kept) < 1.1 * x.numel()


def assert_alike_in_any_batch(layer) -> None:
    x = torch.randn(20, layer.in_features)
    with torch.no_grad():  # scales of a whole tensor would differ by 1e-2 here
        torch.testing.assert_close(
            layer(x), torch.cat([layer(row[None]) for row in x]), atol=1e-6, rtol=1e-5
        )
