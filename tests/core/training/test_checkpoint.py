"""A policy that was saved and loaded again trains on as if nothing had happened, adapters and
optimiser included.
"""

import pytest
import torch
from transformers.utils import logging

from swarm_node.generation.generator import BatchGenerator
from swarm_node.policy.loading import load_policy
from swarm_node.policy.policy import Policy
from swarm_node.settings import GenerationConfig, ModelConfig, TrainingConfig
from swarm_node.training import checkpoint
from swarm_node.training.trainer import GrpoTrainer
from tests.models import characters, text_group, tiny_model, weights_of

LESSONS = [[text_group([0.0, 1.0], [f"{k}", f"{k}x"], index=k)] for k in range(6)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rank", "optimizer"), [(0, "adamw"), (4, "adamw"), (0, "adamw_8bit"), (4, "adamw_8bit")]
)
def test_training_goes_on_bit_for_bit_after_a_resume(tmp_path, rank, optimizer) -> None:
    if optimizer == "adamw_8bit":
        pytest.importorskip("bitsandbytes")
    # wide enough that some weights have state in 8 bits: those of up to 4,096 elements have none
    tiny_model(intermediate_size=160).save_pretrained(tmp_path / "base")
    characters().save_pretrained(tmp_path / "base")
    config = ModelConfig(name=str(tmp_path / "base"), device="cpu", lora_rank=rank)
    training = TrainingConfig(learning_rate=1e-2, optimizer=optimizer)

    def start(folder=None):
        torch.manual_seed(0)  # adapters start at random
        policy = load_policy(config, folder)
        return policy, GrpoTrainer(policy, training, GenerationConfig())

    policy, trainer = start()
    for lesson in LESSONS[:3]:
        trainer.update(lesson)
    if optimizer == "adamw_8bit" and not rank:
        states = [trainer.optimizer.state[p] for p in policy.model.parameters()]
        assert any("qmap1" in each for each in states) and not all(
            "qmap1" in each for each in states
        )
    saved = checkpoint.save(tmp_path / "checkpoints", 3, policy, trainer, {}, keep=2)
    again, resumed = start(saved)
    checkpoint.restore_trainer(saved, resumed)
    assert all(map(torch.equal, weights_of(policy.model), weights_of(again.model)))
    assert resumed.steps == 3
    assert [p.requires_grad for p in policy.model.parameters()] == [
        p.requires_grad for p in again.model.parameters()
    ]
    for lesson in LESSONS[3:]:
        assert trainer.update(lesson) == resumed.update(lesson)
    assert all(map(torch.equal, weights_of(policy.model), weights_of(again.model)))
    texts = [
        BatchGenerator(p, GenerationConfig()).generate(["1+1="], 4, "s") for p in (policy, again)
    ]
    assert texts[0] == texts[1]


def test_the_newest_keeps_the_state_and_equal_files_share_their_place(tmp_path) -> None:
    policy = Policy(tiny_model(), characters(), torch.device("cpu"))
    trainer = GrpoTrainer(policy, TrainingConfig(learning_rate=1e-2), GenerationConfig())
    kept = []
    for rounds in (1, 2):
        trainer.update(LESSONS[rounds])
        kept.append(
            checkpoint.save(tmp_path / "checkpoints", rounds, policy, trainer, {}, keep=2, states=1)
        )
    best = checkpoint.save(tmp_path / "best", 2, policy, trainer, {}, keep=1, states=0)
    assert [checkpoint.has_state(path) for path in (*kept, best)] == [False, True, False]
    places = {
        path: {file.name: file.stat().st_ino for file in path.iterdir()} for path in (*kept, best)
    }
    assert (
        places[kept[0]]["tokenizer.json"]
        == places[kept[1]]["tokenizer.json"]
        == places[best]["tokenizer.json"]
    )
    assert places[kept[0]]["model.safetensors"] != places[kept[1]]["model.safetensors"]
    assert places[kept[1]]["model.safetensors"] == places[best]["model.safetensors"]
    fresh = GrpoTrainer(policy, TrainingConfig(), GenerationConfig())
    checkpoint.restore_trainer(kept[0], fresh)  # Adam starts again from zeros
    assert fresh.steps == 1 and not fresh.optimizer.state


def test_no_progress_bar_comes_between_the_lines_of_rounds(tmp_path, monkeypatch, capfd) -> None:
    # As for users; tests/conftest.py turns bars off
    monkeypatch.setattr(logging, "_tqdm_active", True)
    tiny_model().save_pretrained(tmp_path / "by itself")
    assert "Writing" in capfd.readouterr().err
    Policy(tiny_model(), characters(), torch.device("cpu")).save(tmp_path / "as a checkpoint")
    assert "Writing" not in capfd.readouterr().err
    assert logging.is_progress_bar_enabled()
