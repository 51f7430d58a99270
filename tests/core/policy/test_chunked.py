"""Log-probs computed in chunks equal those of the whole distribution, and so do their gradients."""

import pytest
import torch
from torch import Tensor, nn

from swarm_node.policy import log_probs as chunks
from swarm_node.policy.log_probs import log_distribution

TEMPERATURES = (1.0, 0.7, 1.2)
TOKENS, WIDTH, VOCABULARY = 60, 32, 3000


def head(bias: bool = True) -> nn.Linear:
    torch.manual_seed(0)
    return nn.Linear(WIDTH, VOCABULARY, bias=bias)


def direct(
    hidden: Tensor, output: nn.Linear, taken: Tensor, temperature: float
) -> tuple[Tensor, Tensor]:
    log_p = log_distribution(output(hidden), temperature)
    return log_p.gather(-1, taken[:, None])[:, 0], -torch.special.xlogy(
        log_p.exp(), log_p.exp()
    ).sum(-1)


def results(way, output: nn.Linear, temperature: float) -> list[Tensor]:
    """Log-probs, entropies, and the gradients of hidden states, weight and bias."""
    generator = torch.Generator().manual_seed(1)
    hidden = torch.randn(TOKENS, WIDTH, generator=generator).requires_grad_()
    taken = torch.randint(VOCABULARY, (TOKENS,), generator=generator)
    log_probs, entropies = way(hidden, output, taken, temperature)
    output.zero_grad()
    (log_probs * torch.randn(TOKENS, generator=generator)).sum().backward()
    parameters = [p.grad.clone() for p in output.parameters() if p.grad is not None]
    return [log_probs.detach(), entropies.detach(), hidden.grad, *parameters]


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 7 * 4 * VOCABULARY)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("temperature", TEMPERATURES)
def test_values_and_gradients_are_those_of_the_direct_way(temperature, bias, small_chunks) -> None:
    ours, theirs = (
        results(way, head(bias), temperature) for way in (chunks.projected_log_probs, direct)
    )
    assert len(ours) == len(theirs) == (5 if bias else 4)
    for got, wanted in zip(ours, theirs, strict=True):
        assert (got - wanted).abs().max() <= 1e-6 * max(1.0, float(wanted.abs().max()))


def test_a_frozen_head_gets_no_gradient(small_chunks) -> None:
    frozen = head().requires_grad_(False)
    ours, theirs = (results(way, frozen, 1.2) for way in (chunks.projected_log_probs, direct))
    assert len(ours) == 3 and torch.allclose(ours[2], theirs[2], atol=1e-6)


def test_under_autocast_gradients_are_those_of_the_direct_way_and_logits_are_not_rounded(
    small_chunks,
) -> None:
    exact = results(direct, head(), 1.0)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        ours, theirs = (results(way, head(), 1.0) for way in (chunks.projected_log_probs, direct))
    # What is left comes of the weights, which are rounded
    assert (ours[0] - exact[0]).norm() <= 0.8 * (theirs[0] - exact[0]).norm()
    for got, wanted in zip(ours[2:], theirs[2:], strict=True):
        assert (got - wanted).norm() <= 2e-2 * wanted.norm()


def test_chunks_are_worth_it_for_a_head_whose_gradient_is_large_and_never_for_starters() -> None:
    sizes = [(16_384, 99, 256), (64, 49_152, 576), (1, 151_936, 896), (2048, 151_936, 896)]
    assert [chunks.is_large(*size) for size in sizes] == [False, False, True, True]
