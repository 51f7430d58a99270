"""The hand-written training forward: logits and gradients of the library's, and what it refuses."""

import pytest
import torch

from swarm_node.policy.batch import build_rows, build_tree
from swarm_node.policy.batch import unrecorded as new
from swarm_node.policy.llama.llama_training import LlamaTraining
from swarm_node.policy.policy import Packing
from tests.models import tiny_model, tiny_policy

CPU = torch.device("cpu")
PACKED = [
    new(list(range(5, 25)), [list(range(k, k + 4 + k)) for k in range(1, 5)]),
    new([5, 6, 8], [[9, 10], [9, 11], [11]]),
    new([9], [[12]]),
]
MODELS = [
    ("Llama", {}),
    ("Llama", {"attention_bias": True, "mlp_bias": True}),
    ("Qwen2", {}),
    ("Qwen3", {}),
    ("Llama", {"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0}}),
]


def logits_and_gradients(policy, batch, logits):
    found = logits(batch)
    torch.manual_seed(1)
    (torch.log_softmax(found, dim=-1) * torch.randn(found.shape)).sum().backward()
    gradients = {name: p.grad.clone() for name, p in policy.model.named_parameters()}
    policy.model.zero_grad()
    return found.detach(), gradients


@pytest.mark.parametrize(("family", "options"), MODELS)
def test_logits_and_gradients_are_those_of_the_library_on_padded_rows(family, options) -> None:
    policy = tiny_policy(family, **options)
    with torch.no_grad():  # a weight of ones and a bias of zeros would hide where they go
        for name, parameter in policy.model.named_parameters():
            if "norm" in name or "bias" in name:
                parameter.add_(torch.randn_like(parameter), alpha=0.3)
    assert policy.packing is Packing.NATIVE
    expected = logits_and_gradients(policy, build_rows(PACKED, CPU), policy.logits)
    native = LlamaTraining(policy.model)
    tree = build_tree(PACKED, CPU, 1)
    ours = logits_and_gradients(policy, tree, lambda batch: native.logits(batch)[batch.source_T])
    torch.testing.assert_close(ours[0], expected[0], atol=1e-5, rtol=1e-5)
    largest = max(float(g.abs().max()) for g in expected[1].values())
    for name, gradient in expected[1].items():
        torch.testing.assert_close(
            ours[1][name], gradient, atol=1e-5 * largest, rtol=1e-5, msg=name
        )


def test_other_architectures_types_and_layers_are_refused() -> None:
    adapted = tiny_model("Llama")
    adapted.model.layers[0].mlp.up_proj = type("Adapter", (torch.nn.Linear,), {})(32, 48)
    for model in (tiny_model("GPT2"), tiny_model("Llama").to(torch.bfloat16), adapted):
        with pytest.raises(TypeError):
            LlamaTraining(model)


def test_it_is_not_taken_where_products_are_in_bfloat16_or_the_logits_differ(monkeypatch) -> None:
    assert tiny_policy("Llama", autocast=torch.bfloat16).packing is Packing.BLOCKS
    monkeypatch.setattr(
        LlamaTraining, "_rotation", lambda self, at: torch.ones(len(at), 1, self._dim // 2) + 0j
    )
    assert tiny_policy("Llama").packing is Packing.BLOCKS
