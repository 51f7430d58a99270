"""Chunks, and blocks that are computed again, save memory and change neither gradients nor
updates.
"""

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor

from swarm_node.policy import recompute
from swarm_node.policy.batch import build_rows
from swarm_node.settings import GenerationConfig, TrainingConfig
from swarm_node.training.trainer import GrpoTrainer
from tests.gradients import PACKED, TEMPERATURES, WAYS, assert_alike, gradients, use_chunks
from tests.models import LESSON, tiny_policy, with_lora

KINDS = {"plain": lambda policy: policy, "LoRA": with_lora}


@pytest.fixture
def in_chunks(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    return partial(use_chunks, monkeypatch)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("temperature", TEMPERATURES)
def test_neither_chunks_nor_a_tree_change_a_gradient(kind, way, temperature, in_chunks) -> None:
    direct = gradients(KINDS[kind](tiny_policy("Qwen2")), None, temperature)
    in_chunks(True)
    policy = KINDS[kind](tiny_policy("Qwen2"))
    ours = gradients(policy, WAYS[way], temperature)
    assert policy._head is not None
    # oneDNN rounds products by the kind of CPU: up to 1.5e-6 was seen
    assert_alike(ours, direct, tolerance=3e-6)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("chunks", [True, False], ids=["chunks", "direct"])
def test_blocks_that_are_computed_again_change_no_gradient(kind, way, chunks, in_chunks) -> None:
    in_chunks(chunks)
    kept = gradients(KINDS[kind](tiny_policy("Qwen2")), WAYS[way], 1.2)
    policy = KINDS[kind](tiny_policy("Qwen2"))
    policy.checkpointing = True
    assert_alike(gradients(policy, WAYS[way], 1.2, thread=True), kept, tolerance=0.0)


@pytest.mark.parametrize("family", ["Llama", "Qwen3", "Mistral", "Gemma3", "GPT2", "OPT", "Mamba"])
def test_hidden_states_of_other_families_give_the_same(family, in_chunks) -> None:
    direct = gradients(tiny_policy(family), None, 0.7)
    in_chunks(True)
    policy = tiny_policy(family)
    assert policy._head is not None
    policy.checkpointing = True
    assert_alike(gradients(policy, None, 0.7), direct, tolerance=1e-5)


def test_a_model_that_caps_its_logits_is_computed_directly(in_chunks) -> None:
    direct = gradients(tiny_policy("Gemma2", final_logit_softcapping=1.0), None, 1.0)
    in_chunks(True)
    policy = tiny_policy("Gemma2", final_logit_softcapping=1.0)
    assert policy._head is None
    assert_alike(gradients(policy, None, 1.0), direct, tolerance=0.0)


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("kind", ["plain", "LoRA"])
def test_whole_updates_with_a_penalty_are_the_same(kind, padded, in_chunks) -> None:
    found = []
    for little in (False, True):
        in_chunks(little)
        training = TrainingConfig(learning_rate=1e-2, beta=0.1, num_iterations=2)
        policy = KINDS[kind](tiny_policy())
        trainer = GrpoTrainer(policy, training, GenerationConfig(), padded=padded, recompute=little)
        assert trainer.update([LESSON]).optimizer_steps == 2 and (trainer.packing is None) == padded
        found.append([p.detach() for p in policy.model.parameters()])
    # Adam magnifies differences of gradients near zero
    assert_alike(found[1], found[0], tolerance=2e-4)


def test_a_block_keeps_its_input_alone() -> None:
    kept: list[int] = []
    policy = tiny_policy()
    batch = build_rows(PACKED, policy.device)
    for again in (False, True):
        policy.checkpointing = again
        total = 0

        def count(tensor: Tensor) -> Tensor:
            nonlocal total
            total += tensor.numel()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(count, lambda x: x):
            policy.log_probs(batch, 1.0)
        kept.append(total)
    assert kept[1] < kept[0] / 2
    assert len(recompute.blocks_of(policy.model)) == 2
