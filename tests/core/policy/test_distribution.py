"""Log-probs are those of the distribution that tokens are sampled from."""

from math import log, sqrt

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from swarm_node.generation.sampling import inverse_cdf, uniforms
from swarm_node.policy.log_probs import log_distribution, log_probs_of

LOGITS = torch.tensor([[0.5, 0.25, 0.15, 0.07, 0.03]]).log()


def probabilities(temperature: float, logits: torch.Tensor = LOGITS) -> list[float]:
    return log_distribution(logits, temperature).exp()[0].tolist()


def test_at_a_temperature_of_one_it_is_the_softmax() -> None:
    assert probabilities(1.0) == pytest.approx([0.5, 0.25, 0.15, 0.07, 0.03], abs=1e-6)


def test_a_temperature_of_a_half_squares_the_odds() -> None:
    squares = [0.25, 0.0625, 0.0225, 0.0049, 0.0009]
    expected = [square / sum(squares) for square in squares]
    assert probabilities(0.5) == pytest.approx(expected, abs=1e-6)


@settings(deadline=None)
@given(st.sampled_from([0.3, 0.7, 1.0, 1.5]), st.integers(0, 10_000))
def test_every_token_that_can_be_drawn_has_the_same_log_prob_in_training(temperature, seed) -> None:
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(6, 11, generator=generator)
    log_p = log_distribution(logits, temperature)
    token = inverse_cdf(log_p, torch.rand(6, dtype=torch.float64, generator=generator))
    drawn = log_p.gather(1, token[:, None])[:, 0]
    assert torch.isfinite(drawn).all() and torch.equal(
        drawn, log_probs_of(logits, token, temperature)
    )
    torch.testing.assert_close(log_p.exp().sum(-1), torch.ones(6))


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_draws_come_as_often_as_their_probability_says(temperature) -> None:
    count = 40_000
    log_p = log_distribution(LOGITS, temperature)
    drawn = inverse_cdf(
        log_p.expand(count, -1), uniforms(f"frequencies {temperature}", 1, count)[0]
    )
    frequencies = (drawn.bincount(minlength=5) / count).tolist()
    for seen, expected in zip(frequencies, log_p.exp()[0].tolist(), strict=True):
        assert abs(seen - expected) <= 4.5 * sqrt(expected * (1 - expected) / count)


def test_a_draw_at_either_end_of_the_line_never_takes_an_impossible_token() -> None:
    log_p = torch.tensor([[float("-inf"), log(0.5), log(0.5), float("-inf")]])
    assert inverse_cdf(log_p, torch.tensor([0.0], dtype=torch.float64)).item() == 1
    assert inverse_cdf(log_p, torch.tensor([1 - 2**-53], dtype=torch.float64)).item() == 2


def test_a_stream_gives_its_numbers_again_and_another_name_gives_others() -> None:
    assert torch.equal(uniforms("a", 3, 4), uniforms("a", 3, 4))
    assert (
        not torch.equal(uniforms("a", 3, 4), uniforms("b", 3, 4))
        and uniforms("a", 3, 4).dtype == torch.float64
    )
