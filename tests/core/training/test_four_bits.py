"""A base in 4 bits under LoRA: refused in one line where it cannot be, and trained where the extra
is installed.
"""

import sys
from importlib.util import find_spec

import pytest
import torch

from swarm_node.common.errors import UserError
from swarm_node.generation.generator import BatchGenerator
from swarm_node.policy.loading import load_policy
from swarm_node.settings import GenerationConfig, ModelConfig, TrainingConfig
from swarm_node.training import checkpoint
from swarm_node.training.trainer import GrpoTrainer
from tests.models import LESSON, MANY_EOS, characters, tiny_model

INSTALLED = find_spec("bitsandbytes") is not None and find_spec("accelerate") is not None


def config(folder, **changes) -> ModelConfig:
    model = tiny_model("Qwen2", hidden_size=64, intermediate_size=128)
    model.generation_config.eos_token_id = list(MANY_EOS)
    model.save_pretrained(folder)
    characters().save_pretrained(folder)
    options = {"name": str(folder), "device": "cpu", "lora_rank": 4, "quantization": "nf4"}
    return ModelConfig(**{**options, **changes})


def test_what_cannot_be_is_refused(tmp_path) -> None:
    with pytest.raises(UserError, match="needs"):
        load_policy(config(tmp_path, lora_rank=0))


def test_without_the_extra_a_line_says_what_to_install(tmp_path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "bitsandbytes", None)  # as where it is not installed
    with pytest.raises(UserError, match=r"textswarm\[memory\]"):
        load_policy(config(tmp_path))


@pytest.mark.slow
@pytest.mark.skipif(not INSTALLED, reason="needs the extra `memory`")
@pytest.mark.parametrize("again", [False, True])
def test_it_generates_trains_and_resumes(again, tmp_path) -> None:
    made = config(tmp_path / "base")
    policy = load_policy(made)
    training = TrainingConfig(learning_rate=1e-2, optimizer="adamw_8bit")
    trainer = GrpoTrainer(policy, training, GenerationConfig(), recompute=again)
    assert len(BatchGenerator(policy, GenerationConfig()).generate(["1+1="], 4, "s")) == 1
    before = [p.detach().clone() for p in policy.model.parameters() if p.requires_grad]
    assert trainer.update([LESSON]).optimizer_steps == 1
    trained = [p for p in policy.model.parameters() if p.requires_grad]
    assert not all(map(torch.equal, before, trained))
    kept = checkpoint.save(tmp_path / "checkpoints", 1, policy, trainer, {}, keep=1)
    resumed = GrpoTrainer(load_policy(made, kept), training, GenerationConfig(), recompute=again)
    checkpoint.restore_trainer(kept, resumed)
    for one in (trainer, resumed):
        one.update([LESSON])
    assert all(
        map(torch.equal, trained, [p for p in resumed.policy.model.parameters() if p.requires_grad])
    )
