"""A base in 4 bits under LoRA generates with our own decoder: as transformers does, and without a
copy of a weight.
"""

from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from lab.benchmarks.memory_plan import Bytes
from swarm_node.generation.generator import BatchGenerator, choose_decoder, unmerged
from swarm_node.policy import memory_plan
from swarm_node.policy import plan as plans
from swarm_node.policy.llama.four_bits import FourBits, is_four_bits
from swarm_node.policy.llama.llama_decoder import LlamaDecoder
from swarm_node.policy.loading import load_policy
from swarm_node.policy.memory_plan import fitted, plan_here
from swarm_node.policy.policy import Policy
from swarm_node.rollouts.groups import Completions
from swarm_node.settings import GenerationConfig, LearningConfig, ModelConfig
from tests.groups import tokens_of
from tests.models import MANY_EOS, characters, plain_log_probs, tiny_model

pytestmark = pytest.mark.skipif(
    find_spec("bitsandbytes") is None or find_spec("accelerate") is None,
    reason="needs the extra `memory`",
)
PROMPTS = ["1+1=", "a longer question:", "x"]
FAMILIES = ["Llama", "Qwen2", "Qwen3"]
BIASES = {"attention_bias": True, "mlp_bias": True}


def changed(policy: Policy, seed: int) -> None:
    """As after an update: other adapters, and the next version."""
    random = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in policy.model.parameters():
            if weight.requires_grad:
                weight.add_(0.05 * torch.randn(weight.shape, generator=random))
    policy.version += 1


def four_bits(folder: Path, family: str = "Qwen2", **options) -> Policy:
    """A policy of a small model in 4 bits whose adapters have been trained for a while."""
    model = tiny_model(family, hidden_size=64, intermediate_size=128, **options)
    random = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith("bias"):
                weight.add_(0.3 * torch.randn(weight.shape, generator=random))
    model.generation_config.eos_token_id = list(MANY_EOS)
    model.save_pretrained(folder)
    characters().save_pretrained(folder)
    made = load_policy(ModelConfig(name=str(folder), device="cpu", lora_rank=4, quantization="nf4"))
    changed(made, 1)
    return made


@torch.inference_mode()
def greedy(decoder: LlamaDecoder, prompt: list[int], steps: int) -> list[int]:
    """The likeliest tokens behind a prompt."""
    logits, running = decoder.prefill([prompt], 1, steps), torch.ones(1, dtype=torch.bool)
    found = [int(logits.argmax())]
    while len(found) < steps:
        decoder.reserve(1)
        found.append(int(decoder.step(torch.tensor(found[-1:]), running).argmax()))
    return found


@pytest.mark.parametrize("options", [{}, BIASES], ids=["plain", "biases"])
@pytest.mark.parametrize("family", FAMILIES)
def test_it_writes_as_transformers_does(family, options, tmp_path) -> None:
    policy = four_bits(tmp_path, family, **(options if family != "Qwen2" else {}))
    assert choose_decoder(policy, "auto") is LlamaDecoder
    generator = BatchGenerator(policy, GenerationConfig(max_completion_length=12))
    for number in range(2):
        for group in generator.generate(PROMPTS, 4, str(number)):
            assert isinstance(group, Completions)
            for tokens in tokens_of(group):
                with torch.no_grad():
                    wanted = plain_log_probs(policy.model, group.prompt_ids, tokens.ids)
                assert tokens.log_probs == pytest.approx(wanted.tolist(), abs=1e-3)
        changed(policy, 2 + number)


@pytest.mark.parametrize("family", FAMILIES)
def test_its_likeliest_tokens_are_those_of_transformers_generation(family, tmp_path) -> None:
    policy = four_bits(tmp_path, family)
    prompt = policy.encode_prompt(PROMPTS[1])
    decoder = LlamaDecoder(policy)
    for seed in (2, 3):
        with torch.no_grad():
            written = policy.model.generate(
                input_ids=torch.tensor([prompt]),
                attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
                max_new_tokens=20, do_sample=False, eos_token_id=None, pad_token_id=0,
            )  # fmt: skip
        assert greedy(decoder, prompt, 20) == written[0, len(prompt) :].tolist()
        changed(policy, seed)
        decoder.renew()


def test_no_weight_has_a_copy(tmp_path) -> None:
    """What the decoder makes is smaller than the base would be in 16 bits: it has norms and
    adapters of its own.
    """
    policy = four_bits(tmp_path, num_hidden_layers=4)
    linear = [m for m in policy.model.modules() if is_four_bits(m)]
    weights = sum(m.in_features * m.out_features for m in linear)
    adapters = sum(p.numel() for p in policy.model.parameters() if p.requires_grad)
    with Bytes() as count, torch.inference_mode():
        decoder = LlamaDecoder(policy)
        # As adapters of several layers lie side by side, most of what is up is zeros
        assert count.now <= 4 * 4 * adapters < 2 * weights
    assert all(isinstance(layer.gate_up, FourBits) for layer in decoder._layers)
    assert decoder._head.weight.data_ptr() == decoder._embedding.data_ptr()
    assert unmerged(policy, 10**6), "nothing can be merged"


def test_an_update_makes_no_new_decoder(tmp_path, monkeypatch) -> None:
    policy, made = four_bits(tmp_path), []
    begin = LlamaDecoder.__init__

    def counted(self, *arguments, **options) -> None:
        made.append(self)
        begin(self, *arguments, **options)

    generator = BatchGenerator(policy, GenerationConfig(max_completion_length=40))
    monkeypatch.setattr(LlamaDecoder, "__init__", counted)
    for number in range(3):
        generator.generate(PROMPTS, 4, str(number))
        changed(policy, number)
    assert len(made) == 1


def test_the_plan_counts_one_weight_in_full_and_no_copy(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(memory_plan, "room_of", lambda device, limits: 16.0 * plans.GIB)
    policy = four_bits(tmp_path)
    config = LearningConfig(model=ModelConfig(lora_rank=4, quantization="nf4"))
    here = plan_here(config, policy)
    assert here is not None
    assert here.copy == 0
    how = plans.Arithmetic("cpu", plans.NF4_BYTES, 4, 4)
    shape = plans.shape_of(policy.model.config, 10**6, 10**4)
    without = plans.generation(shape, plans.Arithmetic("cpu", 4, 4, 4), True, 8, 272, 8)
    assert plans.generation(shape, how, True, 8, 272, 8) - without == 4 * 64 * 128
    fitted(config, policy)
    assert policy.keeps_decoder is False
