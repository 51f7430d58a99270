"""Tree attention in a model: the model is left as it was, and precision is kept."""

from contextlib import nullcontext

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface

from swarm_node.policy import tree_attention
from swarm_node.policy.batch import build_tree
from swarm_node.policy.batch import unrecorded as new
from swarm_node.policy.policy import Packing
from swarm_node.settings import GenerationConfig, TrainingConfig
from swarm_node.training.trainer import GrpoTrainer
from tests.gradients import allowed
from tests.models import text_group, tiny_policy

CPU = torch.device("cpu")
PACKED = [
    new(list(range(5, 25)), [list(range(k, k + 4 + k)) for k in range(1, 5)]),
    new([5, 6, 7, 8], [[9, 10], [9, 11], [11]]),
]


def test_a_model_is_left_as_it_was_when_its_forward_fails() -> None:
    policy = tiny_policy()
    with (
        pytest.raises(ZeroDivisionError),
        tree_attention.attending(policy.model, build_tree(PACKED, CPU, 1).tree),
    ):
        raise ZeroDivisionError
    assert policy.model.config._attn_implementation == "sdpa"


def test_heads_that_share_keys_may_have_them_repeated() -> None:
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, heads, 5, 8) for heads in (4, 2, 2))
    mask = torch.ones(5, 5, dtype=torch.bool).tril()
    shared = scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)
    keys, values = (tree_attention._for_every_head(x, 4) for x in (k, v))
    torch.testing.assert_close(
        scaled_dot_product_attention(q, keys, values, attn_mask=mask), shared
    )


def test_attention_over_a_tree_gives_what_the_dense_mask_gives() -> None:
    torch.manual_seed(0)
    batch = build_tree(PACKED, CPU, 1)
    columns = batch.ids_RL.shape[1]
    q, k, v = (torch.randn(1, heads, columns, 8) for heads in (4, 2, 2))
    dense = torch.nn.functional.scaled_dot_product_attention(
        q, k, v, attn_mask=allowed(batch), enable_gqa=True, scale=0.2
    )
    token = tree_attention._current.set(batch.tree)
    blocks, _ = tree_attention._attend(None, q, k, v, None, scaling=0.2)
    tree_attention._current.reset(token)
    torch.testing.assert_close(blocks.transpose(1, 2), dense, atol=1e-6, rtol=1e-5)


def test_lora_and_bfloat16_train_on_rows_end_to_end() -> None:
    from swarm_node.policy.loading import _with_lora

    policy = tiny_policy("Llama", autocast=torch.bfloat16)
    policy.model = _with_lora(policy.model, 2, None)
    trainer = GrpoTrainer(policy, TrainingConfig(beta=0.1, num_iterations=2), GenerationConfig())
    assert trainer.packing is Packing.BLOCKS
    assert trainer.update([text_group([0.0, 1.0, 1.0], ["12", "3456", "7"])]).optimizer_steps == 2
    assert all(p.grad is None or torch.isfinite(p.grad).all() for p in policy.model.parameters())


def test_a_model_whose_attention_cannot_be_chosen_trains_on_padded_rows() -> None:
    policy = tiny_policy("Mistral")
    policy.model.set_attn_implementation = lambda _: (_ for _ in ()).throw(
        ValueError("not mine to choose")
    )
    assert policy.packing is None


def test_attention_off_a_cpu_gets_queries_keys_and_values_of_one_type(monkeypatch) -> None:
    """Under autocast, rotary embeddings leave queries and keys in float32: torch's kernels refuse
    to mix types.
    """
    # torch.autocast does not know the device `meta`, which has no memory.
    monkeypatch.setattr(tree_attention.torch, "autocast", lambda *_, **__: nullcontext())
    q, k, v = (
        torch.empty(1, 4, 7, 8, device="meta", dtype=d)
        for d in (torch.float32, torch.float32, torch.bfloat16)
    )
    with pytest.raises(RuntimeError, match="same dtype"):
        scaled_dot_product_attention(q, k, v)
    seen, _ = AttentionInterface()[tree_attention.ALIKE](torch.nn.Module(), q, k, v, None)
    assert (seen.shape, seen.dtype) == ((1, 7, 4, 8), torch.float32)
