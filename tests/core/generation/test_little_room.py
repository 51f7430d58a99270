"""A device that has no room for all prompts at once."""

import pytest
import torch

from swarm_node.generation.generator import BatchGenerator
from swarm_node.rollouts.groups import Skipped
from swarm_node.settings import GenerationConfig
from tests.models import MANY_EOS, tiny_policy

PROMPTS = ["1+1=", "ab", "a longer one:"]
CONFIG = GenerationConfig(max_completion_length=12)


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
