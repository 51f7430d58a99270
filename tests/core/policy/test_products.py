"""Products of a training step: those of oneDNN agree with torch's, and those of layers with
adapters have the gradients of the plain way.
"""

from itertools import pairwise

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck

from swarm_node.policy import products
from swarm_node.policy.llama import llama_training
from swarm_node.policy.llama.llama_training import _AdaptedProducts, _Gated
from swarm_node.policy.products import times

needs_onednn = pytest.mark.skipif(
    not products._suits_onednn(torch.empty(4, 512), torch.empty(512, 512)), reason="needs oneDNN"
)


def some(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("least", [0, 2**60], ids=["oneDNN", "BLAS"])
def test_a_product_is_the_sum_over_the_inner_dimension(least, monkeypatch) -> None:
    monkeypatch.setattr(products, "ONEDNN_FROM", least)
    a, b = torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[5.0, 6.0], [7.0, 8.0], [0, -1]])
    by_hand = torch.tensor([[17.0, 23.0, -2.0], [39.0, 53.0, -4.0]])
    assert torch.equal(times(a, b), by_hand)
    assert torch.equal(times(a.T.contiguous().T, b.T.contiguous().T), by_hand), "transposed views"
    wide = torch.cat([a, a], dim=1)
    assert torch.equal(times(wide[:, 2:], b), by_hand), "columns of a wider matrix"


@needs_onednn
def test_a_large_product_in_float32_is_that_of_float64_rounded() -> None:
    a, b = some(70, 300), some(600, 300, seed=1)
    assert products._suits_onednn(a.float(), b.float())
    exact = a @ b.T
    assert (times(a.float(), b.float()).double() - exact).abs().max() <= 1e-6 * exact.abs().max()


@needs_onednn
def test_products_are_plain_in_other_types_under_a_gradient_and_without_the_private_operator(
    monkeypatch,
) -> None:
    a, b = torch.ones(4, 512), torch.ones(512, 512)
    assert products._suits_onednn(a, b)
    assert not products._suits_onednn(a.double(), b.double())
    assert not products._suits_onednn(a.bfloat16(), b.bfloat16())
    assert not products._suits_onednn(a.to("meta"), b.to("meta"))
    assert not products._suits_onednn(a, b.clone().requires_grad_())
    monkeypatch.setattr(torch.ops, "mkldnn", object())
    assert not products._suits_onednn(a, b) and torch.equal(
        times(a, b), torch.full((4, 512), 512.0)
    )


# Ranks of the adapters of each layer (0: it has none), whether it has biases, and what is trained
LAYERS = [
    ((3, 2, 0), True, "adapters"),
    ((2,), False, "adapters"),
    ((2, 2), False, "all"),
    ((0, 0), True, "all"),
]


@pytest.mark.parametrize(("ranks", "biased", "trained"), LAYERS)
def test_the_gradients_of_several_layers_are_those_of_differences(ranks, biased, trained) -> None:
    x = some(5, 4).requires_grad_()
    widths = [3 + number for number in range(len(ranks))]
    whole = trained == "all"
    down = some(sum(ranks), 4, seed=1).requires_grad_() if any(ranks) else None
    ups = [
        some(w, r, seed=2).requires_grad_() if r else None
        for w, r in zip(widths, ranks, strict=True)
    ]
    biases = [some(w, seed=3).requires_grad_(whole) if biased else None for w in widths]
    weights = [some(w, 4, seed=4).requires_grad_(whole) for w in widths]
    arguments = (x, down, *ups, *biases, *weights)
    assert gradcheck(_AdaptedProducts.apply, arguments, atol=1e-6, rtol=1e-6)
    ends = [0, *torch.tensor(ranks).cumsum(0).tolist()]
    layers = zip(
        _AdaptedProducts.apply(*arguments), weights, biases, ups, pairwise(ends), strict=True
    )
    for made, weight, bias, up, (first, past) in layers:
        plain = x @ weight.T
        plain = plain if bias is None else plain + bias
        plain = plain if up is None else plain + x @ down[first:past].T @ up.T
        torch.testing.assert_close(made, plain, atol=1e-12, rtol=1e-12)


def test_a_frozen_input_gets_no_gradient_and_costs_no_product(monkeypatch) -> None:
    weight, up = some(6, 4), some(6, 2).requires_grad_()
    (made,) = _AdaptedProducts.apply(some(5, 4), some(2, 4), up, None, weight)
    seen = []
    monkeypatch.setattr(
        llama_training, "times", lambda a, b: seen.append((a.shape, b.shape)) or a @ b.T
    )
    made.sum().backward()
    assert ((5, 6), (4, 6)) not in seen and len(seen) == 2, "only those with A and B"
    torch.testing.assert_close(up.grad, (torch.ones(6, 5).double() @ (some(5, 4) @ some(2, 4).T)))


def test_the_gradient_of_a_gated_unit_is_that_of_differences() -> None:
    gate, up = some(3, 4).requires_grad_(), some(3, 4, seed=1).requires_grad_()
    assert gradcheck(_Gated.apply, (gate, up), atol=1e-6, rtol=1e-6)


def test_a_step_keeps_one_thin_product_for_layers_with_the_same_input() -> None:
    kept: list[Tensor] = []
    x, down = some(50, 40).requires_grad_(), some(6, 40).requires_grad_()
    ups = [some(30, 2).requires_grad_() for _ in range(3)]
    weights = [some(30, 40) for _ in range(3)]
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        _AdaptedProducts.apply(x, down, *ups, None, None, None, *weights)
    own = {t.data_ptr(): t.numel() for t in kept}
    for tensor in (x, down, *ups, *weights):
        own.pop(tensor.data_ptr(), None)
    assert list(own.values()) == [50 * 6]
