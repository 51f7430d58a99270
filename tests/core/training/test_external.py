"""Weights of external completions, by hand and at the edges."""

from math import inf, log

import pytest
import torch

from swarm_node.training.external import GAMMA, HIGHEST, expectation, sequence, shaping


def test_the_sequence_weight_falls_where_we_find_the_text_less_likely_than_its_author() -> None:
    # per character: equal; half as likely; 1.5 times as likely
    ours, theirs = [-10.0, -10.0 + 10 * log(0.5), -10.0 + 10 * log(1.5)], [-10.0] * 3
    assert sequence(ours, theirs, [10, 10, 10]) == pytest.approx([1.0, 0.8 * 0.5, 1.5])


def test_the_sequence_weight_does_not_depend_on_how_many_tokens_the_author_needed() -> None:
    assert sequence([-6.0], [-6.0], [3]) == sequence([-60.0], [-60.0], [30])


def test_the_expectation_divides_the_whole_group_by_one_number() -> None:
    q = [0.5, 0.25]
    expected = (0.25 + 0.0625) / 0.75
    weights = expectation([log(0.5), log(0.5)], [log(x) for x in q], [1, 1])
    assert weights == pytest.approx([0.5 / expected] * 2)
    # the plain ratios would be 1 and 2: a completion unlikely for its author does not get more
    assert expectation([4 * log(0.5)] * 2, [4 * log(x) for x in q], [4, 4]) == pytest.approx([0.5 / expected] * 2)


@pytest.mark.parametrize("rule", [sequence, expectation])
@pytest.mark.parametrize("theirs", [-1e9, -inf, 0.0, 1e9])
def test_whatever_the_author_claims_no_weight_is_above_the_limit_or_negative(rule, theirs) -> None:
    for ours in (-1e6, -5.0, 0.0):
        for weight in rule([ours, ours], [theirs, -3.0], [0, 5]):
            assert 0.0 <= weight <= HIGHEST + 1e-9


def test_shaping_is_the_gradient_of_p_over_p_plus_g() -> None:
    log_probs = torch.tensor([-0.001, -1.0, log(GAMMA), -5.0, -20.0], dtype=torch.float64, requires_grad=True)
    p = log_probs.exp()
    (p / (p + GAMMA)).sum().backward()
    assert torch.allclose(shaping(log_probs.detach()), log_probs.grad)
    assert float(shaping(torch.tensor(log(GAMMA)))) == pytest.approx(0.25) == float(log_probs.grad.max())
