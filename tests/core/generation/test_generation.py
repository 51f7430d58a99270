"""Three decoders give one text; completions may be empty, cut off, too long, or ended by any of
several tokens.
"""

import pytest
import torch

from protocol import limits
from swarm_node.common.errors import UserError
from swarm_node.generation.decoding import ModelDecoder, RecomputeDecoder, agrees
from swarm_node.generation.generator import BatchGenerator, Sampled, choose_decoder, still_running
from swarm_node.policy.llama.llama_decoder import LlamaDecoder
from swarm_node.policy.loading import load_policy
from swarm_node.policy.policy import Packing
from swarm_node.rollouts.groups import Completions, Group, Skipped
from swarm_node.settings import GenerationConfig, ModelConfig, TrainingConfig
from swarm_node.training.trainer import GrpoTrainer
from tests.groups import episodes_of, scored, tokens_of
from tests.models import EOS, MANY_EOS, VOCABULARY, plain_log_probs, text_group, tiny_policy

PROMPTS = ["7:", "a rather longer prompt, with 1+2=", "mid one:", "x" * 60]


def generate(
    policy, decoder=None, prompts=PROMPTS, size=4, stream="s", length=16, **rule
) -> list[Completions | Skipped]:
    generator = BatchGenerator(policy, GenerationConfig(max_completion_length=length, **rule))
    if decoder is not None:
        generator._decoder_type = decoder
    return generator.generate(prompts, size, stream)


def ids_of(generated) -> list[tuple[int, ...]]:
    return [tokens.ids for group in generated for tokens in tokens_of(group)]


def log_probs_of(generated) -> list[float]:
    return [
        value for group in generated for tokens in tokens_of(group) for value in tokens.log_probs
    ]


def counted(decoder: type, kept: list[int]) -> type:
    """A subclass of this decoder that notes how many slots each compaction keeps."""

    class Counted(decoder):
        def keep(self, slots) -> None:
            kept.append(slots.numel())
            super().keep(slots)

    return Counted


def rewarded(generated) -> list[Group]:
    """Groups of four completions to each of PROMPTS, with rewards that make them informative."""
    groups = []
    for prompt, group in zip(PROMPTS, generated, strict=True):
        received = text_group([0.0, 1.0, 0.0, 0.5], [c.text for c in episodes_of(group)], prompt)
        groups.append(scored(received, prompt, received.rewards, tokens_of(group)))
    return groups


def assert_log_probs_of(policy, groups: list[Group], tolerance: float) -> None:
    """The recorded log-probs equal those of unpadded forward passes of this policy."""
    for group in groups:
        for tokens in tokens_of(group):
            with torch.no_grad():
                found = plain_log_probs(
                    policy.model, policy.encode_prompt(group.prompt), tokens.ids
                )
            torch.testing.assert_close(
                found, torch.tensor(tokens.log_probs), atol=tolerance, rtol=0
            )


@pytest.mark.slow
@pytest.mark.parametrize("family", ["Llama", "Qwen2", "Qwen3"])
@pytest.mark.parametrize("rule", [{}, {"temperature": 0.8}], ids=["plain", "colder"])
def test_all_decoders_generate_the_same_text_with_compaction_and_prompts_of_different_length(
    family, rule
) -> None:
    policy = tiny_policy(family, eos=MANY_EOS)
    texts, log_probs = [], []
    for base in (LlamaDecoder, ModelDecoder, RecomputeDecoder):
        kept: list[int] = []
        generated = generate(policy, counted(base, kept), length=40, **rule)
        assert len(kept) >= 2 and kept == sorted(kept, reverse=True)
        texts.append(ids_of(generated))
        log_probs.append(log_probs_of(generated))
    assert (
        texts[0] == texts[1] == texts[2]
        and len(set(texts[0])) > 10
        and len(set(map(len, texts[0]))) > 5
    )
    assert log_probs[0] == pytest.approx(log_probs[2], abs=1e-4)
    assert log_probs[1] == pytest.approx(log_probs[2], abs=1e-4)


LLAMA3_ROPE = {
    "rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0,
    "original_max_position_embeddings": 32, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
}  # fmt: skip


@pytest.mark.parametrize(
    ("family", "overrides"),
    [
        ("Llama", {"attention_bias": True, "mlp_bias": True}),
        ("Llama", {"head_dim": 12, "num_key_value_heads": 1}),
        ("Llama", {"num_key_value_heads": 4, "tie_word_embeddings": True, "rms_norm_eps": 1e-3}),
        (
            "Llama",
            {"rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 10000.0}},
        ),
        ("Llama", {"rope_parameters": LLAMA3_ROPE}),
        ("Qwen3", {"attention_bias": True, "rope_theta": 500.0}),
    ],
    ids=["biases", "odd heads", "tied", "linear rope", "llama3 rope", "qwen3 bias"],
)
def test_the_own_decoder_knows_the_variants_of_its_families(family, overrides) -> None:
    policy = tiny_policy(family, eos=MANY_EOS, **overrides)
    assert choose_decoder(policy, "auto") is LlamaDecoder
    assert ids_of(generate(policy, LlamaDecoder)) == ids_of(generate(policy, RecomputeDecoder))


@pytest.mark.parametrize(
    ("family", "overrides"),
    [
        ("Llama", {"hidden_act": "gelu"}),
        ("Llama", {"hidden_act": "gelu", "initializer_range": 0.02}),
        ("Qwen2", {"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 0}),
        (
            "Llama",
            {"rope_parameters": {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10000.0}},
        ),
        ("GPT2", {}),
    ],
    ids=["activation", "activation, small weights", "window", "dynamic rope", "another family"],
)
def test_the_own_decoder_is_not_taken_for_a_model_it_does_not_know(family, overrides) -> None:
    policy = tiny_policy(family, **overrides)
    assert choose_decoder(policy, "auto") is not LlamaDecoder
    with pytest.raises(ValueError, match="our decoder does not know"):
        choose_decoder(policy, "native")


@pytest.mark.slow
@pytest.mark.parametrize("family", ["Mistral", "Gemma3", "Phi3"])
@pytest.mark.parametrize("window", [8, 48, 100])
def test_a_sliding_window_is_kept_in_generation_and_in_training(family, window) -> None:
    policy = tiny_policy(family, eos=MANY_EOS, sliding_window=window)
    generated = generate(policy)
    assert ids_of(generated) == ids_of(generate(policy, RecomputeDecoder))
    trainer = GrpoTrainer(policy, TrainingConfig(epsilon=0.01), GenerationConfig())
    report = trainer.update(rewarded(generated))
    # A window of 100 is longer than these texts
    assert trainer.packing is (Packing.BLOCKS if window == 100 else None)
    assert report.ratio_mean == pytest.approx(1.0, abs=1e-4) and report.clip_fraction == 0.0


# --- who else is in the batch ---------------------------------------------------------------------


@pytest.mark.parametrize("decoder", [LlamaDecoder, ModelDecoder, RecomputeDecoder])
def test_a_text_does_not_depend_on_what_the_others_are_asked(decoder) -> None:
    policy = tiny_policy(eos=MANY_EOS)
    first = generate(policy, decoder, ["the same:", "a", "bb", "ccc"])
    second = generate(policy, decoder, ["the same:", "z" * 70, "1+1=", "long " * 8])
    assert episodes_of(first[0]) == episodes_of(second[0]) and ids_of(first[1:]) != ids_of(
        second[1:]
    )


def test_a_stream_generates_the_same_again_and_another_something_else() -> None:
    policy = tiny_policy(eos=MANY_EOS)
    assert generate(policy, stream="a") == generate(policy, stream="a")
    assert ids_of(generate(policy, stream="a")) != ids_of(generate(policy, stream="b"))


# --- ends -----------------------------------------------------------------------------------------


def test_a_completion_ends_at_its_first_end_token_and_says_so() -> None:
    policy = tiny_policy(eos=MANY_EOS)
    generated = generate(policy, size=8)
    lengths = set()
    for group in generated:
        for completion, tokens in zip(episodes_of(group), tokens_of(group), strict=True):
            lengths.add(len(tokens.ids))
            assert (
                len(tokens.ids) == len(tokens.log_probs) <= 16
                and not set(tokens.ids[:-1]) & policy.eos_ids
            )
            assert completion.ended == (tokens.ids[-1] in policy.eos_ids)
            assert completion.ended or len(tokens.ids) == 16
            # An end token is no text, special or not
            said = tokens.ids[:-1] if completion.ended else tokens.ids
            assert completion.text == policy.decode([list(said)])[0]
    assert {1, 2, 3, 16} <= lengths


@pytest.mark.parametrize("length", [1, 16])
def test_a_model_without_any_end_token_generates_to_the_limit(length) -> None:
    policy = tiny_policy(eos=())
    policy.eos_ids = frozenset()
    assert {len(ids) for ids in ids_of(generate(policy, length=length))} == {length}


def test_an_empty_completion_is_a_completion_and_is_trained_on() -> None:
    # The first token ends a completion, whichever it is
    policy = tiny_policy(eos=range(VOCABULARY))
    generated = generate(policy)
    assert all(len(ids) == 1 for ids in ids_of(generated))
    assert all(
        completion.text == "" and completion.ended
        for group in generated
        for completion in episodes_of(group)
    )
    trainer = GrpoTrainer(policy, TrainingConfig(), GenerationConfig())
    assert trainer.update(rewarded(generated)[:1]).trained_tokens == 4


def test_a_prompt_longer_than_the_context_is_skipped_and_the_others_are_answered() -> None:
    policy = tiny_policy()
    just_fits, too_long = "x" * (128 - 16), "x" * (128 - 15)
    generated = generate(policy, prompts=[too_long, "1:", just_fits, ""])
    assert [isinstance(group, Completions) for group in generated] == [False, True, True, False]
    assert isinstance(generated[0], Skipped)
    assert generate(policy, prompts=[]) == []
    assert all(isinstance(group, Skipped) for group in generate(policy, prompts=[too_long]))


def test_a_limit_that_leaves_no_room_for_a_prompt_is_a_mistake_of_the_user() -> None:
    with pytest.raises(UserError, match="no room for a prompt"):
        BatchGenerator(tiny_policy(), GenerationConfig(max_completion_length=128))


def test_a_text_that_no_message_can_hold_is_skipped() -> None:
    policy = tiny_policy()
    generator = BatchGenerator(policy, GenerationConfig(max_completion_length=8))
    long, short = [5] * (limits.MAX_EPISODE_CHARS + 1), [5] * limits.MAX_EPISODE_CHARS
    assert isinstance(
        generator._begin(generator._stops)._finished([5], [Sampled(short, []), Sampled(long, [])]),
        Skipped,
    )
    assert isinstance(
        generator._begin(generator._stops)._finished([5], [Sampled(short, []), Sampled(short, [])]),
        Completions,
    )


def test_compaction_keeps_what_runs_and_only_prompts_that_run() -> None:
    running = torch.tensor([[True, False, True], [False, False, False], [False, True, False]])
    assert still_running(running).tolist() == [[0, 2], [7, 6]]


# --- adapters and bfloat16 ------------------------------------------------------------------------


def lora_policy(path):
    tiny_policy(eos=MANY_EOS).save(path)
    return load_policy(ModelConfig(name=str(path), device="cpu", lora_rank=4))


def disturb_adapters(policy, size: float) -> None:
    torch.manual_seed(0)
    for weight in policy.model.parameters():
        if weight.requires_grad:
            weight.data += size * torch.randn_like(weight)


def trained(policy) -> None:
    trainer = GrpoTrainer(policy, TrainingConfig(learning_rate=0.05), GenerationConfig())
    trainer.update([text_group([0.0, 1.0], ["12", "ab"])])


@pytest.mark.parametrize(
    ("lora", "change"), [(True, lambda policy: disturb_adapters(policy, 0.3)), (False, trained)]
)
def test_new_weights_are_seen_by_the_next_generation_also_those_of_adapters(
    tmp_path, lora, change
) -> None:
    policy = lora_policy(tmp_path / "base") if lora else tiny_policy(eos=MANY_EOS)
    generator = BatchGenerator(policy, GenerationConfig())
    assert generator.decoder_name == "LlamaDecoder"  # which merges adapters
    before = generator.generate(PROMPTS, 4, "s")
    change(policy)
    after = generator.generate(PROMPTS, 4, "s")
    assert ids_of(before) != ids_of(after) and ids_of(after) == ids_of(
        generate(policy, RecomputeDecoder)
    )


@pytest.mark.parametrize(
    ("options", "merged"),
    [
        ({}, True),
        ({"use_rslora": True}, True),
        ({"use_dora": True}, False),
        ({"lora_bias": True}, False),
        ({"target_modules": ["q_proj", "embed_tokens"]}, False),
        ({"modules_to_save": ["norm"]}, False),
    ],
    ids=["plain", "other scale", "DoRA", "bias", "embedding", "norms"],
)
def test_adapters_that_are_no_sum_are_never_left_out(options, merged) -> None:
    from peft import LoraConfig, inject_adapter_in_model

    policy = tiny_policy(eos=MANY_EOS)
    assert agrees(LlamaDecoder, policy)
    config = LoraConfig(
        **{"r": 2, "target_modules": ["q_proj"], "task_type": "CAUSAL_LM", **options}
    )
    policy.model = inject_adapter_in_model(config, policy.model)
    assert type(policy.model).__name__ == "LlamaForCausalLM"
    assert bool(agrees(LlamaDecoder, policy)) == merged  # although the adapters change nothing yet
    assert choose_decoder(policy, "auto") is (LlamaDecoder if merged else ModelDecoder)


def test_the_reference_of_a_lora_policy_is_its_base(tmp_path) -> None:
    policy, base = lora_policy(tmp_path / "base"), tiny_policy()
    disturb_adapters(policy, 0.1)
    prompt, texts = "1+1=", ["12", "ab"]
    penalty = 0.0
    with torch.no_grad():
        for text in texts:
            ids = [*policy.tokenizer(text).input_ids, EOS]
            now, before = (
                plain_log_probs(p.model, policy.encode_prompt(prompt), ids) for p in (policy, base)
            )
            penalty += ((before - now).exp() - (before - now) - 1).mean().item() / len(texts)
    trainer = GrpoTrainer(policy, TrainingConfig(beta=0.5), GenerationConfig())
    # Ratio 1: the clipped part sums to nought
    report = trainer.update([text_group([0.0, 1.0], texts, prompt)])
    assert penalty > 0.01 and report.loss == pytest.approx(0.5 * penalty, rel=1e-4)


@pytest.mark.parametrize("beta", [0.0, 0.2])
def test_a_lora_policy_trains_its_adapters_and_nothing_else(tmp_path, beta) -> None:
    policy = lora_policy(tmp_path / "base")
    weights = {name: weight.detach().clone() for name, weight in policy.model.named_parameters()}
    trainer = GrpoTrainer(
        policy, TrainingConfig(learning_rate=1e-2, beta=beta, num_iterations=2), GenerationConfig()
    )
    assert trainer.update([text_group([0.0, 1.0], ["12", "ab"])]).optimizer_steps == 2
    moved = {
        name
        for name, weight in policy.model.named_parameters()
        if not torch.equal(weight, weights[name])
    }
    assert moved and all("lora_" in name for name in moved)


@pytest.mark.parametrize("family", ["Llama", "GPT2"])
def test_bfloat16_products_generate_and_train(family) -> None:
    policy = tiny_policy(family, eos=MANY_EOS, autocast=torch.bfloat16, initializer_range=0.08)
    groups = rewarded(generate(policy))
    assert_log_probs_of(tiny_policy(family, eos=MANY_EOS, initializer_range=0.08), groups, 0.1)
    report = GrpoTrainer(policy, TrainingConfig(), GenerationConfig()).update(groups)
    assert report.optimizer_steps == 1 and report.ratio_mean == pytest.approx(1.0, abs=0.02)
    assert all(weight.dtype == torch.float32 for weight in policy.model.parameters())
