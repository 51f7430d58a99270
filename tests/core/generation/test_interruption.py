"""New weights in the middle of a completion, and a device that has no room for all prompts at once."""

import pytest
import torch

from swarm_node.generation.generator import BatchGenerator
from swarm_node.rollouts.groups import GeneratedGroup, Skipped
from swarm_node.settings import GenerationConfig
from tests.models import MANY_EOS, plain_log_probs, tiny_model, tiny_policy

PROMPTS = ["1+1=", "ab", "a longer one:"]
CONFIG = GenerationConfig(max_completion_length=12)


class Updates:
    """A refresh that puts new weights into the policy after so many questions whether there are any."""

    def __init__(self, policy, *after: int) -> None:
        self.policy, self.after, self.asked = policy, after, 0
        self.models = [tiny_model(policy.name, seed=seed) for seed in range(len(after) + 1)]

    def __call__(self) -> bool:
        self.asked += 1
        if self.asked not in self.after:
            return False
        self.policy.version += 1
        self.policy.model.load_state_dict(self.models[self.policy.version].state_dict())
        return True


@pytest.mark.parametrize(("family", "decoder"), [("Qwen2", "native"), ("Llama", "model"), ("GPTNeoX", "auto")])
def test_every_token_is_of_the_weights_it_is_said_to_be_of(family, decoder) -> None:
    policy = tiny_policy(family, eos=MANY_EOS)
    updates = Updates(policy, 3, 4, 8)
    generated = BatchGenerator(policy, CONFIG, updates, decoder=decoder).generate(PROMPTS, 4, "s")
    spans = 0
    for prompt, group in zip(PROMPTS, generated, strict=True):
        assert isinstance(group, GeneratedGroup)
        for tokens in group.tokens:
            steps = [0, 0, 0, 1, 2, 2, 2, 2, 3, 3, 3, 3]
            assert list(tokens.versions) == steps[: len(tokens.ids)]
            spans += len(set(tokens.versions)) > 1
            for version in set(tokens.versions):
                whole = plain_log_probs(updates.models[version], policy.encode_prompt(prompt), tokens.ids)
                for said, real, wrote in zip(tokens.log_probs, whole.tolist(), tokens.versions, strict=True):
                    assert wrote != version or said == pytest.approx(real, abs=2e-3)
    assert spans >= 3
    assert policy.version == 3


def test_tokens_before_new_weights_are_those_without_new_weights() -> None:
    policy = tiny_policy(eos=MANY_EOS)
    calm = BatchGenerator(policy, CONFIG).generate(PROMPTS, 4, "s")
    torn = BatchGenerator(policy, CONFIG, Updates(policy, 5)).generate(PROMPTS, 4, "s")
    for before, after in zip(calm, torn, strict=True):
        for x, y in zip(before.tokens, after.tokens, strict=True):
            assert x.ids[:5] == y.ids[:5]
    assert calm != torn


def test_a_refresh_that_has_nothing_new_changes_nothing() -> None:
    policy = tiny_policy(eos=MANY_EOS)
    assert BatchGenerator(policy, CONFIG, lambda: False).generate(PROMPTS, 4, "s") == BatchGenerator(
        policy, CONFIG
    ).generate(PROMPTS, 4, "s")


@pytest.mark.slow
def test_out_of_memory_generates_the_same_text_in_smaller_parts() -> None:
    policy = tiny_policy(eos=MANY_EOS)
    generator = BatchGenerator(policy, CONFIG, decoder="model")
    roomy = generator.generate(PROMPTS, 4, "s")
    forward = policy.model.forward
    seen = []

    def limited(*args, **kwargs):
        seen.append(kwargs["input_ids"].shape[0])
        if kwargs["input_ids"].shape[0] > 4:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return forward(*args, **kwargs)

    policy.model.forward = limited
    tight = generator.generate(PROMPTS, 4, "s")
    assert max(seen) > 4
    assert [group.completions for group in tight] == [group.completions for group in roomy]


@pytest.mark.slow
def test_a_prompt_for_which_there_is_no_memory_at_all_is_skipped_and_the_others_are_not() -> None:
    policy = tiny_policy(eos=MANY_EOS)
    generator = BatchGenerator(policy, CONFIG, decoder="model")
    forward = policy.model.forward

    def limited(*args, **kwargs):
        if kwargs["attention_mask"].shape[1] > 10:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return forward(*args, **kwargs)

    policy.model.forward = limited
    config = CONFIG.model_copy(update={"max_completion_length": 2})
    generator._config = config
    generated = generator.generate(PROMPTS, 4, "s")
    assert [isinstance(group, Skipped) for group in generated] == [False, False, True]
    assert generated[2] == Skipped("out of device memory")
