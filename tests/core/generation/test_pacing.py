"""Pacing of generation: a bound on the tokens that are decoded at once, and completions that are
broken off.
"""

from itertools import accumulate
from mmap import mmap

import pytest
import torch

from swarm_node.generation.generator import BatchGenerator, Decoding
from swarm_node.generation.pacing import SLACK, Astray, ConcurrencyLimit
from swarm_node.rollouts.groups import Completions
from swarm_node.settings import GenerationConfig
from tests.groups import episodes_of, tokens_of
from tests.models import MANY_EOS, tiny_policy

PROMPTS = [f"question {k}: {'x' * k}?" for k in range(6)]


def generate(policy, **options) -> list[Completions]:
    config = GenerationConfig(num_generations=4, max_completion_length=24, **options)
    generated = BatchGenerator(policy, config).generate(PROMPTS, 4, "s")
    assert all(isinstance(group, Completions) for group in generated)
    return generated  # type: ignore[return-value]


@pytest.mark.parametrize(("bound", "value"), [("concurrent_tokens", 250), ("base", mmap(-1, 1))])
def test_a_bound_on_what_is_decoded_at_once_changes_no_text(monkeypatch, bound, value) -> None:
    policy = tiny_policy(eos=MANY_EOS)
    whole = generate(policy)
    batches = []
    decode = Decoding._decode

    def counted(self, prompts, *rest):
        batches.append((len(prompts), self.decoder))
        return decode(self, prompts, *rest)

    monkeypatch.setattr(Decoding, "_decode", counted)
    monkeypatch.setattr("swarm_node.generation.generator.PROMPTS", 2)
    setattr(policy, bound, value)
    parts = generate(policy)
    sizes, (_, *decoders) = zip(*batches, strict=True)
    assert len(sizes) > 1 and sum(sizes) == len(PROMPTS)
    assert None not in decoders and len(set(decoders)) == 1  # one copy of the weights for all
    assert [episodes_of(g) for g in parts] == [episodes_of(g) for g in whole]


def test_as_many_are_admitted_as_are_expected_to_fit() -> None:
    pace = ConcurrencyLimit(1000, 100)
    assert pace.admits(100) == int(SLACK * 1000 / 200)
    pace.saw([20, 40])  # shorter than feared: half-way to the mean of 30
    assert pace.admits(100) == int(SLACK * 1000 / 165)
    assert (
        ConcurrencyLimit(10, 100).admits(1000) == 1
        and ConcurrencyLimit(0, 100).admits(1000) > 1_000_000
    )


def test_a_completion_that_becomes_improbable_is_broken_off() -> None:
    policy = tiny_policy(eos=MANY_EOS)
    whole, stopped = generate(policy), generate(policy, stop_below=-0.1)
    shorter = 0
    for before, after in zip(whole, stopped, strict=True):
        for one, other, completion in zip(
            tokens_of(before), tokens_of(after), episodes_of(after), strict=True
        ):
            # The same text, up to where it was broken off
            assert one.ids[: len(other.ids)] == other.ids
            means = accumulate(
                one.log_probs, lambda mean, new: 0.992 * mean + 0.008 * new, initial=0.0
            )
            low = next((tokens for tokens, mean in enumerate(means) if mean < -0.1), len(one.ids))
            assert len(other.ids) == low
            if len(other.ids) < len(one.ids):
                shorter += 1
                assert not completion.ended
    assert shorter > 0


def test_without_a_bound_nothing_is_astray() -> None:
    mean = torch.zeros(3)
    assert Astray(0.0, 0.5)(mean, torch.full((3,), -1e9)) == (mean, None)
