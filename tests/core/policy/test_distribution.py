"""Log-probs are those of the distribution that tokens are sampled from."""

from math import log, sqrt

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from swarm_node.generation.sampling import inverse_cdf, uniforms
from swarm_node.policy.log_probs import SamplingRule, log_distribution, log_probs_of

LOGITS = torch.tensor([[0.5, 0.25, 0.15, 0.07, 0.03]]).log()
RULES = st.builds(
    SamplingRule, st.sampled_from([0.3, 0.7, 1.0, 1.5]), st.sampled_from([0.1, 0.5, 0.9, 1.0]), st.integers(0, 12)
)


def probabilities(rule: SamplingRule, logits: torch.Tensor = LOGITS) -> list[float]:
    return log_distribution(logits, rule).exp()[0].tolist()


def test_without_a_rule_it_is_the_softmax() -> None:
    assert probabilities(SamplingRule()) == pytest.approx([0.5, 0.25, 0.15, 0.07, 0.03], abs=1e-6)


def test_a_temperature_of_a_half_squares_the_odds() -> None:
    squares = [0.25, 0.0625, 0.0225, 0.0049, 0.0009]
    expected = [square / sum(squares) for square in squares]
    assert probabilities(SamplingRule(temperature=0.5)) == pytest.approx(expected, abs=1e-6)


def test_top_k_shares_the_whole_among_the_k_likeliest() -> None:
    assert probabilities(SamplingRule(top_k=2)) == pytest.approx([2 / 3, 1 / 3, 0, 0, 0], abs=1e-6)


def test_top_p_keeps_the_token_that_crosses_the_line() -> None:
    assert probabilities(SamplingRule(top_p=0.6)) == pytest.approx([2 / 3, 1 / 3, 0, 0, 0], abs=1e-6)


def test_top_p_works_on_what_top_k_left() -> None:
    # of 0.5, 0.25, 0.15 the first has 0.556 of the whole and the first two have 0.833
    assert probabilities(SamplingRule(top_k=3, top_p=0.8)) == pytest.approx([2 / 3, 1 / 3, 0, 0, 0], abs=1e-6)


def test_the_likeliest_token_stays_however_narrow_the_nucleus() -> None:
    assert probabilities(SamplingRule(top_p=1e-6)) == pytest.approx([1, 0, 0, 0, 0])


def test_a_token_outside_the_nucleus_keeps_a_finite_log_prob_with_a_gradient() -> None:
    logits = LOGITS.clone().requires_grad_()
    value = log_probs_of(logits, torch.tensor([4]), SamplingRule(top_p=0.6))
    assert value.item() == pytest.approx(log(0.03 / 0.78), abs=1e-5)
    value.sum().backward()
    assert logits.grad is not None
    assert torch.isfinite(logits.grad).all()
    assert logits.grad[0, 4] > 0


@settings(deadline=None)
@given(RULES, st.integers(0, 10_000))
def test_every_token_that_can_be_drawn_has_the_same_log_prob_in_training(rule, seed) -> None:
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(6, 11, generator=generator)
    log_p = log_distribution(logits, rule)
    token = inverse_cdf(log_p, torch.rand(6, dtype=torch.float64, generator=generator))
    drawn = log_p.gather(1, token[:, None])[:, 0]
    assert torch.isfinite(drawn).all()
    assert torch.equal(drawn, log_probs_of(logits, token, rule))
    torch.testing.assert_close(log_p.exp().sum(-1), torch.ones(6))


@pytest.mark.parametrize(
    "rule", [SamplingRule(), SamplingRule(temperature=0.7), SamplingRule(top_p=0.8), SamplingRule(top_k=3)]
)
def test_draws_come_as_often_as_their_probability_says(rule) -> None:
    count = 40_000
    log_p = log_distribution(LOGITS, rule)
    drawn = inverse_cdf(log_p.expand(count, -1), uniforms(f"frequencies {rule}", 1, count)[0])
    frequencies = (drawn.bincount(minlength=5) / count).tolist()
    for seen, expected in zip(frequencies, log_p.exp()[0].tolist(), strict=True):
        assert abs(seen - expected) <= 4.5 * sqrt(expected * (1 - expected) / count)


def test_a_draw_at_either_end_of_the_line_never_takes_an_impossible_token() -> None:
    log_p = torch.tensor([[float("-inf"), log(0.5), log(0.5), float("-inf")]])
    assert inverse_cdf(log_p, torch.tensor([0.0], dtype=torch.float64)).item() == 1
    assert inverse_cdf(log_p, torch.tensor([1 - 2**-53], dtype=torch.float64)).item() == 2


def test_a_draw_from_a_large_vocabulary_is_possible_at_the_last_uniform_number() -> None:
    log_p = torch.log_softmax(torch.randn(1, 150_000, generator=torch.Generator().manual_seed(0)), -1)
    token = inverse_cdf(log_p, torch.tensor([1 - 2**-53], dtype=torch.float64))
    assert 0 <= token.item() < 150_000


def test_a_stream_gives_its_numbers_again_and_another_name_gives_others() -> None:
    assert torch.equal(uniforms("a", 3, 4), uniforms("a", 3, 4))
    assert not torch.equal(uniforms("a", 3, 4), uniforms("b", 3, 4))
    assert uniforms("a", 3, 4).dtype == torch.float64
