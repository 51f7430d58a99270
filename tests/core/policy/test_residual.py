"""What rounding costs where products are in bfloat16: the residual stream and the logits are in
float32, in our decoder and in training, and log-probs are then closer to exact ones.
"""

import copy

import pytest
import torch

from swarm_node.policy import policy as policies
from swarm_node.policy.batch import build_rows, build_tree, unrecorded
from swarm_node.policy.llama import llama_decoder
from swarm_node.policy.llama.llama_decoder import LlamaDecoder
from swarm_node.policy.loading import load_policy
from swarm_node.policy.policy import Policy
from swarm_node.policy.residual import residual_dtype
from swarm_node.settings import ModelConfig
from tests.models import VOCABULARY, characters, tiny_model, with_lora

PROMPTS = [[5, 9, 40, 7, 23], [8, 30], [17, 61, 3]]
WRITTEN = [[(11 * k + 7 * row) % VOCABULARY for k in range(12)] for row in range(3)]
FAMILIES = ["Llama", "Qwen2", "Qwen3"]


def deep(family: str) -> Policy:
    """A policy of twelve layers under adapters, with weights and products in bfloat16. Each layer
    adds little to a residual stream that is large, and logits are large, as in trained models.
    """
    model = tiny_model(
        family, num_hidden_layers=12, initializer_range=0.02, tie_word_embeddings=False
    )
    with torch.no_grad():
        model.get_input_embeddings().weight.mul_(50)
        model.get_output_embeddings().weight.mul_(50)
    model.to(torch.bfloat16)
    policy = with_lora(Policy(model, characters(), torch.device("cpu"), torch.bfloat16, family))
    with torch.no_grad():
        for weight in policy.model.parameters():
            if weight.requires_grad:
                weight.mul_(0.1)
    return policy


@torch.no_grad()
def exact(policy: Policy) -> torch.Tensor:
    """Log-probs [rows, tokens] by transformers and peft in float64."""
    model = copy.deepcopy(policy.model).double()
    found = []
    for prompt, written in zip(PROMPTS, WRITTEN, strict=True):
        logits = model(input_ids=torch.tensor([[*prompt, *written]])).logits[
            0, len(prompt) - 1 : -1
        ]
        taken = torch.tensor(written)[:, None]
        found.append(torch.log_softmax(logits, -1).gather(1, taken)[:, 0])
    return torch.stack(found)


@torch.inference_mode()
def decoded(policy: Policy, *, merged: bool) -> torch.Tensor:
    """The same by our decoder."""
    decoder = LlamaDecoder(policy, merged=merged)
    logits = [decoder.prefill(PROMPTS, 1, len(WRITTEN[0]))]
    running = torch.ones(len(PROMPTS), dtype=torch.bool)
    for tokens in torch.tensor(WRITTEN).T[:-1]:
        decoder.reserve(1)
        logits.append(decoder.step(tokens, running))
    log_probs = torch.log_softmax(torch.stack(logits, 1).double(), -1)
    return log_probs.gather(2, torch.tensor(WRITTEN)[..., None])[..., 0]


@torch.no_grad()
def trained(policy: Policy, *, packed: bool) -> torch.Tensor:
    """The same as the trainer computes it."""
    groups = [unrecorded(*pair) for pair in zip(PROMPTS, [[one] for one in WRITTEN], strict=True)]
    batch = build_tree(groups, policy.device, 1) if packed else build_rows(groups, policy.device)
    found, _ = policy.log_probs(batch, 1.0)
    return found.view(len(PROMPTS), -1).double()


def error(found: torch.Tensor, wanted: torch.Tensor) -> float:
    return float((found - wanted).square().mean().sqrt())


@pytest.fixture
def rounded(monkeypatch):
    """Makes all that follows as it was: bfloat16 between layers, and logits of that type."""

    def begin() -> None:
        monkeypatch.setattr(llama_decoder, "residual_dtype", lambda products: products)
        monkeypatch.setattr(policies, "keep_in_float32", lambda model, autocast: None)
        monkeypatch.setattr(
            llama_decoder.LlamaDecoder,
            "_output",
            lambda self, model: self._linear(model.lm_head, dtype=torch.bfloat16),
        )

    return begin


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("merged", [True, False], ids=["merged", "beside"])
def test_our_decoder_is_closer_to_float64(family, merged, rounded) -> None:
    policy = deep(family)
    now = error(decoded(policy, merged=merged), exact(policy))
    rounded()
    before = error(decoded(policy, merged=merged), exact(policy))
    assert now <= 0.3 * before


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("packed", [False, True], ids=["rows", "tree"])
def test_training_is_closer_to_float64(family, packed, rounded) -> None:
    policy = deep(family)
    now = error(trained(policy, packed=packed), exact(policy))
    rounded()
    policy = deep(family)
    before = error(trained(policy, packed=packed), exact(policy))
    assert now <= 0.3 * before


@pytest.mark.parametrize("family", FAMILIES)
def test_what_is_sampled_is_closer_to_what_is_trained(family, rounded) -> None:
    policy = deep(family)
    now = error(decoded(policy, merged=False), trained(policy, packed=True))
    rounded()
    policy = deep(family)
    before = error(decoded(policy, merged=False), trained(policy, packed=True))
    assert now <= 0.7 * before


@pytest.mark.parametrize("family", FAMILIES)
def test_adapters_get_gradients_through_a_residual_in_float32(family) -> None:
    policy = deep(family)
    batch = build_rows([unrecorded(PROMPTS[0], [WRITTEN[0]])], policy.device)
    log_probs, _ = policy.log_probs(batch, 1.0)
    policy.backward(log_probs.sum(), batch)
    gradients = [p.grad for p in policy.model.parameters() if p.requires_grad]
    assert gradients and all(g is not None and g.isfinite().all() for g in gradients)
    assert any(bool(g.any()) for g in gradients)


def test_weights_in_bfloat16_on_a_cpu_have_it_too(tmp_path) -> None:
    tiny_model().save_pretrained(tmp_path)
    characters().save_pretrained(tmp_path)
    policy = load_policy(ModelConfig(name=str(tmp_path), device="cpu", dtype="bfloat16"))
    embedded = policy.model.get_input_embeddings()(torch.tensor([[3]]))
    assert policy.model.dtype == torch.bfloat16 and embedded.dtype == torch.float32
    plain = load_policy(ModelConfig(name=str(tmp_path), device="cpu"))
    assert plain.autocast_dtype is None
    assert residual_dtype(torch.bfloat16) == residual_dtype(torch.float32) == torch.float32


def test_a_family_whose_layers_are_not_known_stays_as_it_is() -> None:
    model = tiny_model("GPT2").to(torch.bfloat16)
    policy = Policy(model, characters(), torch.device("cpu"), torch.bfloat16)
    assert policy.model.get_input_embeddings()(torch.tensor([[3]])).dtype == torch.bfloat16
