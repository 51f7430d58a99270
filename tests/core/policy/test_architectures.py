"""Every architecture that was tried generates and trains, with all weights and with adapters, or is
refused in one line before anything starts.
"""

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from transformers import AutoModelForCausalLM

from swarm_node.common.errors import UserError
from swarm_node.generation.decoding import ModelDecoder
from swarm_node.generation.generator import BatchGenerator
from swarm_node.policy.loading import load_policy
from swarm_node.policy.policy import Packing
from swarm_node.rollouts.groups import Completions
from swarm_node.settings import GenerationConfig, ModelConfig, TrainingConfig
from swarm_node.training.trainer import GrpoTrainer
from tests import models
from tests.groups import episodes_of, scored, tokens_of
from tests.models import CONTEXT, FAMILIES, RECURRENT

PLAIN = (
    "Apertus", "Arcee", "BitNet", "Cohere", "Cohere2", "DiffLlama", "Dots1", "Ernie4_5", "Exaone4",
    "Gemma", "Glm", "Glm4", "Glm4Moe", "GptOss", "Granite", "GraniteMoe", "Helium",
    "HunYuanDenseV1", "Ministral", "Mixtral", "Nemotron", "Olmo", "Olmo2", "Olmo3", "Olmoe", "Phi",
    "Phimoe", "Qwen2Moe", "Qwen3Moe", "Rwkv", "SeedOss", "SmolLM3", "StableLm", "Starcoder2",
)  # fmt: skip
SIZES = {  # an architecture keeps a size that it does not know, and does not use it
    "head_dim": 8, "moe_intermediate_size": 16, "num_experts_per_tok": 2,
    "first_k_dense_replace": 1, "n_group": 1, "topk_group": 1, "n_shared_experts": 1,
    "num_experts": 4, "num_local_experts": 4, "n_routed_experts": 4,
}  # fmt: skip
LATENT = {
    "q_lora_rank": 16,
    "kv_lora_rank": 8,
    "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 8,
    "v_head_dim": 8,
}
LATENT |= {**SIZES, "num_key_value_heads": 4}
GPT = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": CONTEXT, "rotary_dim": 4}
ZAMBA = {
    "n_mamba_heads": 8,
    "mamba_headdim": 8,
    "mamba_d_state": 8,
    "layers_block_type": ["mamba", "hybrid"],
}
CARE: dict[str, tuple[str, dict[str, Any]]] = {
    "Gemma 3n": ("Gemma3nTextConfig", {
        "head_dim": 8, "num_hidden_layers": 4,
        "layer_types": ["sliding_attention", "full_attention"] * 2,
        "sliding_window": 16,  # shorter than the context, as in published models: rows are padded
        "num_kv_shared_layers": 2, "hidden_size_per_layer_input": 8,
        "vocab_size_per_layer_input": models.VOCABULARY, "laurel_rank": 4,
        "activation_sparsity_pattern": [0.95, 0.95, 0.0, 0.0],
    }),
    "MiniCPM3": ("MiniCPM3Config", {"num_key_value_heads": 4}),
    "MiniCPM3 with keys of two heads": ("MiniCPM3Config", {}),
}  # fmt: skip
KINDS = {
    **FAMILIES,
    **{name: (f"{name}Config", SIZES) for name in PLAIN},
    **{name: (f"{name}Config", LATENT) for name in ("DeepseekV2", "DeepseekV3")},
    **{name: (f"{name}Config", GPT) for name in ("GPTJ", "GPTBigCode", "Falcon")},
    "GPTNeo": (
        "GPTNeoConfig",
        {"num_layers": 2, "num_heads": 4, "attention_types": [[["global", "local"], 1]]},
    ),
    "MPT": ("MptConfig", {"d_model": 32, "n_heads": 4, "n_layers": 2, "max_seq_len": CONTEXT}),
    "XGLM": ("XGLMConfig", {"d_model": 32, "ffn_dim": 48, "num_layers": 2, "attention_heads": 4}),
    "Mamba2": ("Mamba2Config", {"num_heads": 8, "head_dim": 8, "state_size": 8, "n_groups": 1}),
    "FalconMamba": ("FalconMambaConfig", {"state_size": 4}),
    "Bamba": ("BambaConfig", {**models.SSM, "attn_layer_indices": [1]}),
    "RecurrentGemma": (
        "RecurrentGemmaConfig",
        {"head_dim": 8, "block_types": ["recurrent", "attention"]},
    ),
    "Zamba2": ("Zamba2Config", ZAMBA),
    **CARE,
}
REFUSED = {
    # The library's router fails with adapters
    ("Phimoe", 4): "'tuple' object has no attribute 'dtype'",
    **dict.fromkeys(
        [("MiniCPM3 with keys of two heads", rank) for rank in (0, 4)], "The size of tensor"
    ),
}
# Nats a token: the library's step equals its forward pass to no more digits
ROUGH = {"Zamba2": 3e-3}
IDS = torch.tensor([[5, 6, 7, 8]])
PROMPTS = ("1+1=", "123+45678=", "x")
GENERATION = GenerationConfig(max_completion_length=12)
SLOW, OWN, ROWS = {*FAMILIES, *CARE}, {"Llama", "Qwen2", "Qwen3"}, {"Gemma2", "Bloom", *RECURRENT}
EACH = [
    pytest.param(kind, marks=pytest.mark.slow if kind in SLOW else pytest.mark.long)
    for kind in KINDS
]


@pytest.mark.parametrize("rank", [0, 4])
@pytest.mark.parametrize("kind", EACH)
def test_prompts_of_unequal_lengths_are_answered_and_trained_on(
    kind: str, rank: int, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    name, extra = KINDS[kind]
    model = AutoModelForCausalLM.from_config(
        getattr(transformers, name)(**{**models.BASE, **extra})
    )
    model.generation_config.eos_token_id = list(models.MANY_EOS)
    model.save_pretrained(tmp_path)
    models.characters().save_pretrained(tmp_path)
    config = ModelConfig(name=str(tmp_path), device="cpu", lora_rank=rank)
    if (kind, rank) in REFUSED:
        with pytest.raises(UserError, match=f"^cannot load model .*: {REFUSED[kind, rank]}.*$"):
            load_policy(config)
        return
    policy = load_policy(config)
    attention, logits = policy.model.config._attn_implementation, policy.model(input_ids=IDS).logits
    generator, groups = BatchGenerator(policy, GENERATION), []
    for prompt, made in zip(PROMPTS, generator.generate(PROMPTS, 4, "s"), strict=True):
        assert isinstance(made, Completions)
        for tokens in tokens_of(made):
            with torch.no_grad():
                found = models.plain_log_probs(
                    policy.model, policy.encode_prompt(prompt), tokens.ids
                )
            torch.testing.assert_close(
                found, torch.tensor(tokens.log_probs), atol=ROUGH.get(kind, 1e-4), rtol=0
            )
        text = models.text_group(
            [0.0, 1.0, 0.0, 0.5], [each.text for each in episodes_of(made)], prompt
        )
        groups.append(scored(text, prompt, text.rewards, tokens_of(made)))
    trainer = GrpoTrainer(policy, TrainingConfig(learning_rate=1e-3, token_budget=200), GENERATION)
    assert policy.model.config._attn_implementation == attention  # the trials leave it as it was
    assert torch.equal(policy.model(input_ids=IDS).logits, logits)
    if kind in FAMILIES and not rank:
        packing = None if kind in ROWS else Packing.NATIVE if kind in OWN else Packing.BLOCKS
        assert trainer.packing == packing and (
            kind not in RECURRENT or generator._decoder_type is ModelDecoder
        )
    before = [parameter.detach().clone() for parameter in trainer.parameters]
    report = trainer.update(groups)
    assert (report.optimizer_steps, report.trained_groups, report.skipped) == (1, len(PROMPTS), {})
    assert report.ratio_mean == pytest.approx(1.0, abs=ROUGH.get(kind, 1e-4))
    assert any(
        not torch.equal(old, new) for old, new in zip(before, trainer.parameters, strict=True)
    )
