"""Families that need care: each trains, all weights and adapters, or is refused in one line before anything starts."""

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from transformers import AutoModelForCausalLM

from swarm_node.common.errors import UserError
from swarm_node.policy.loading import load_policy
from swarm_node.settings import GenerationConfig, ModelConfig, TrainingConfig
from swarm_node.training.trainer import GrpoTrainer
from tests.models import BASE, VOCABULARY, characters, text_group

KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "Gemma 3n": (
        "Gemma3nTextConfig",
        {
            "head_dim": 8,
            "num_hidden_layers": 4,
            "layer_types": ["sliding_attention", "full_attention"] * 2,
            "sliding_window": 16,  # as the published ones it is shorter than the context: rows are padded
            "num_kv_shared_layers": 2,
            "hidden_size_per_layer_input": 8,
            "vocab_size_per_layer_input": VOCABULARY,
            "laurel_rank": 4,
            "activation_sparsity_pattern": [0.95, 0.95, 0.0, 0.0],
        },
    ),
    "MiniCPM3": ("MiniCPM3Config", {"num_key_value_heads": 4}),
    "Falcon-H1": (
        "FalconH1Config",
        {"mamba_d_ssm": 32, "mamba_n_heads": 4, "mamba_d_head": 8, "mamba_d_state": 8, "mamba_n_groups": 1},
    ),
    "Mamba": ("MambaConfig", {"state_size": 4}),
}


def folder_of(kind: str, folder: Path, **changes: Any) -> Path:
    torch.manual_seed(0)
    name, extra = KINDS[kind]
    config = getattr(transformers, name)(**{**BASE, **extra, **changes})
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    characters().save_pretrained(folder)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("rank", [0, 4])
@pytest.mark.parametrize("kind", KINDS)
def test_prompts_of_unequal_lengths_are_trained_on(kind: str, rank: int, tmp_path: Path) -> None:
    policy = load_policy(ModelConfig(name=str(folder_of(kind, tmp_path)), device="cpu", lora_rank=rank))
    trainer = GrpoTrainer(policy, TrainingConfig(learning_rate=1e-3), GenerationConfig())
    groups = [text_group([0.0, 1.0], ["12", "3"], prompt, index=k) for k, prompt in enumerate(("1+1=", "123+45678="))]
    before = [parameter.detach().clone() for parameter in trainer.parameters]
    report = trainer.update(groups)
    assert (report.optimizer_steps, report.trained_groups, report.skipped) == (1, 2, {})
    assert any(not torch.equal(old, new) for old, new in zip(before, trainer.parameters, strict=True))


def test_a_model_that_cannot_compute_is_refused_in_one_line_when_it_is_loaded(tmp_path: Path) -> None:
    """Four heads, and keys and values of two: MiniCPM3 takes as many."""
    folder = folder_of("MiniCPM3", tmp_path, num_key_value_heads=2)
    with pytest.raises(UserError, match=r"cannot load model .*: The size of tensor") as refused:
        load_policy(ModelConfig(name=str(folder), device="cpu"))
    assert "\n" not in str(refused.value)
