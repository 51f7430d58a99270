"""Our decoder's logits equal those of whole sequences, over blocks of new tokens, moved slots and
packed weights.
"""

import pytest
import torch

from lab.benchmarks.memory_plan import Bytes
from swarm_node.generation.decoding import RecomputeDecoder, agrees
from swarm_node.policy import plan
from swarm_node.policy.llama import llama_decoder
from swarm_node.policy.llama.llama_decoder import BLOCK, LlamaDecoder
from tests.models import VOCABULARY, tiny_policy

# Below, at and above whole blocks
PROMPTS = [[3, 4, 5], list(range(3, 3 + BLOCK)), [9] * (BLOCK + 1), [6]]


@torch.inference_mode()
def logits(decoder, steps: int, moves: dict[int, list[list[int]]]) -> list[torch.Tensor]:
    found, slots = [decoder.prefill(PROMPTS, 3, steps)], torch.arange(3 * len(PROMPTS))
    for step in range(steps):
        if step in moves:
            slots = torch.tensor(moves[step])
            decoder.keep(slots)
        decoder.reserve(1)
        filled = slots.flatten() >= 0
        found.append(
            decoder.step((torch.arange(slots.numel()) * 7 + step) % VOCABULARY, filled)[filled]
        )
    return found


@pytest.mark.slow
@pytest.mark.parametrize("family", ["Llama", "Qwen2", "Qwen3"])
@pytest.mark.parametrize(
    "moves",
    [
        {},
        # Before anything is written; slot 1 twice, and empty slots
        {0: [[2, 1, 1], [6, 8, -1], [10, 9, -1]]},
        # With all room taken, and with one place left
        {BLOCK: [[1, 0], [5, 4], [11, 10]], 2 * BLOCK - 1: [[3, 2]]},
    ],
    ids=["none", "first", "at blocks"],
)
def test_blocks_of_new_tokens_and_moves_between_them_change_no_logit(family, moves) -> None:
    policy = tiny_policy(family)
    ours, reference = (
        logits(kind(policy), 2 * BLOCK + 2, moves) for kind in (LlamaDecoder, RecomputeDecoder)
    )
    torch.testing.assert_close(ours, reference, atol=1e-4, rtol=1e-4)


def test_a_single_prompt_is_left_of_a_model_with_a_key_head_for_every_head() -> None:
    """The starters have these shapes. With one prompt copies become views, whose strides no other
    test covers.
    """
    policy = tiny_policy(num_key_value_heads=4)
    moves = {0: [[2, 1], [6, 8]], 3: [[1, 0]], 5: [[0]]}
    ours, reference = (logits(kind(policy), 8, moves) for kind in (LlamaDecoder, RecomputeDecoder))
    torch.testing.assert_close(ours, reference, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("autocast", [None, torch.bfloat16], ids=["float32", "bfloat16"])
@pytest.mark.parametrize(
    "overrides", [{}, {"attention_bias": True, "mlp_bias": True}], ids=["plain", "biases"]
)
def test_packed_weights_give_the_same_logits_and_the_same_again(
    monkeypatch, autocast, overrides
) -> None:
    policy = tiny_policy(autocast=autocast, **overrides)
    plain = logits(LlamaDecoder(policy), 5, {})
    monkeypatch.setattr(llama_decoder, "PACKED_FROM", 0)
    decoder = LlamaDecoder(policy)
    there = torch.backends.mkldnn.is_available()  # else products are plain
    assert decoder._head.packed == (
        there and (autocast is None or torch.ops.mkldnn._is_mkldnn_bf16_supported())
    )
    assert agrees(LlamaDecoder, policy)
    packed, again = logits(decoder, 5, {}), logits(LlamaDecoder(policy), 5, {})
    tolerance = 1e-5 if autocast is None else 0.05
    for one, two, other in zip(packed, again, plain, strict=True):
        assert torch.equal(one, two) and (one - other).abs().max() <= tolerance * other.abs().max()


def test_weights_are_packed_only_where_that_is_known_and_faster() -> None:
    large = (2048, 1024)
    assert not llama_decoder._worth_packing(torch.empty(large, device="meta"))
    assert not llama_decoder._worth_packing(torch.empty(large, dtype=torch.float16))
    assert not llama_decoder._worth_packing(torch.empty(64, 64))


def test_without_the_private_operators_products_are_plain(monkeypatch) -> None:
    monkeypatch.setattr(llama_decoder, "PACKED_FROM", 0)
    monkeypatch.setattr(torch.ops, "mkldnn", object())
    assert not LlamaDecoder(tiny_policy())._head.packed and agrees(LlamaDecoder, tiny_policy())


@pytest.mark.parametrize("keys", [1, 4], ids=["shared keys", "a key for each head"])
def test_decoding_of_turns_takes_the_memory_that_is_planned(keys) -> None:
    policy = tiny_policy(
        num_hidden_layers=6, num_key_value_heads=keys, max_position_embeddings=512, hidden_size=64
    )
    with Bytes() as count, torch.inference_mode():
        decoder = LlamaDecoder(policy)
        decoder.again = True
        for length in (100, 150, 200):
            decoder.prefill([[row, *[7] * length] for row in range(32)], 1, 1)
    shape = plan.shape_of(policy.model.config, policy.model.num_parameters(), turns=6)
    assert plan.generation(shape, plan.Arithmetic("cpu", 4, 4, 4), False, 32, 201) == pytest.approx(
        count.peak, rel=0.1
    )
