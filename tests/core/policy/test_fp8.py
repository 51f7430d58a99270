"""FP8: products within the bound of the number format, one flow for generation and training, and
what stays equal.
"""

from random import Random

import pytest
import torch
from torch import nn
from torch.nn.utils import parameters_to_vector

from lab.benchmarks import fp8_gpu
from swarm_node.common.errors import UserError
from swarm_node.generation.decoding import ModelDecoder
from swarm_node.generation.generator import BatchGenerator, choose_decoder
from swarm_node.network.in_memory import MemorySwarm
from swarm_node.policy import tree_attention
from swarm_node.policy.batch import build_tree, unrecorded
from swarm_node.policy.fp8 import kernels
from swarm_node.policy.fp8.kernels import REFERENCE, Kernel
from swarm_node.policy.fp8.linear import Fp8Linear, swap_linears, use_fp8
from swarm_node.policy.fp8.quantise import BLOCK, LARGEST, quantise
from swarm_node.policy.llama import llama_decoder
from swarm_node.policy.llama.llama_decoder import LlamaDecoder
from swarm_node.policy.loading import load_policy, precision_of
from swarm_node.policy.policy import Packing, Policy
from swarm_node.policy.precision import PLAIN
from swarm_node.rollouts.groups import Group
from swarm_node.settings import (
    GenerationConfig,
    LearningConfig,
    ModelConfig,
    TrainingConfig,
)
from swarm_node.training.objectives import Mismatch
from swarm_node.training.trainer import GrpoTrainer
from tests.fp8_bound import (
    HALF_STEP,
    assert_alike_in_any_batch,
    assert_kept_in_fp8,
    assert_three_products_within_bound,
)
from tests.groups import episodes_of, scored, tokens_of
from tests.models import (
    MANY_EOS,
    characters,
    gradients_of,
    join,
    make_node,
    plain_log_probs,
    run_together,
    text_group,
    tiny_model,
    tiny_policy,
    trainer_of,
    weights_of,
)

SHAPES = [(5, 7, 3), (1, 128, 128), (130, 257, 300), (200, 96, 513), (256, 384, 128)]


def fp8_policy(
    family: str = "Llama", precision: str = "fp8", kernel: Kernel = REFERENCE, **options
) -> Policy:
    policy = tiny_policy(family, eos=MANY_EOS, **options)
    policy.precision = swap_linears(policy.model, kernel, precision == "fp8")
    return policy


def layer_of(inputs: int, outputs: int, kernel: Kernel = REFERENCE) -> Fp8Linear:
    torch.manual_seed(inputs + outputs)
    return Fp8Linear(nn.Linear(inputs, outputs), kernel, active=True)


@pytest.mark.parametrize(("tokens", "inputs", "outputs"), SHAPES)
def test_the_three_products_are_within_the_bound_of_e4m3(tokens, inputs, outputs) -> None:
    assert_three_products_within_bound(layer_of(inputs, outputs), tokens)


def test_numbers_of_the_format_are_kept_exactly_and_nothing_is_nan() -> None:
    exact = torch.tensor([[448.0, -1.5, 0.0, 2.0**-9, 0.4375]])
    assert torch.equal(quantise(exact).exact, exact)
    assert torch.equal(quantise(torch.zeros(3, 200)).exact, torch.zeros(3, 200))
    for size in (3e38, 1e-37, 1e-42):
        block = torch.full((2, 130), size)
        torch.testing.assert_close(
            quantise(block, side=128).exact, block, rtol=HALF_STEP, atol=1e-40
        )


def test_scales_are_the_least_powers_of_two_that_hold_the_largest_number() -> None:
    x = torch.randn(50, 300) * torch.rand(50, 1) * 9
    published = (
        torch.stack([block.abs().amax(1) for block in x.split(BLOCK, dim=1)], dim=1) / LARGEST
    )
    assert torch.equal(quantise(x).scales.log2(), published.log2().ceil())
    assert torch.equal(quantise(torch.tensor([[448.0]])).scales, torch.ones(1, 1))


@pytest.mark.parametrize("wrong", [float("inf"), -float("inf"), float("nan")])
def test_a_block_that_is_not_finite_is_nan_throughout(wrong) -> None:
    x = torch.randn(2, 256)
    x[1, 3] = wrong
    found = quantise(x).exact
    assert found[1, :128].isnan().all() and torch.equal(
        found.isnan().sum(1), torch.tensor([0, 128])
    )


def test_differences_in_the_last_bits_do_not_pass_quantisation() -> None:
    x = torch.randn(100, 256)
    nearly = x * (1 + 1e-7 * torch.randn(100, 256))
    assert (quantise(x).exact != quantise(nearly).exact).float().mean() < 1e-4


def test_what_is_kept_is_fp8_and_a_token_is_quantised_alike_whoever_is_in_the_batch() -> None:
    assert_kept_in_fp8(layer_of(256, 64))
    assert_alike_in_any_batch(layer_of(200, 50))


def test_a_weight_is_quantised_again_once_it_has_changed() -> None:
    layer = layer_of(64, 64)
    before = layer.quantised()
    assert layer.quantised() is before
    with torch.no_grad():
        layer.weight.copy_(torch.randn(64, 64))
    assert torch.equal(layer.quantised().forwards.exact, quantise(layer.weight.detach(), 128).exact)


@pytest.mark.parametrize("precision", ["fp8", "fp8_rollout"])
def test_every_update_makes_the_quantised_weights_again(precision) -> None:
    policy = fp8_policy(precision=precision)
    before = [layer.quantised() for layer in policy.precision.layers]
    GrpoTrainer(policy, TrainingConfig(learning_rate=0.01), GenerationConfig()).update(
        [generated_group(policy)]
    )
    for layer, old in zip(policy.precision.layers, before, strict=True):
        present = quantise(layer.weight.detach(), 128)
        assert torch.equal(layer.quantised().forwards.exact, present.exact)
        assert not torch.equal(old.forwards.exact, present.exact)


def test_weights_asked_for_first_by_the_decoder_can_be_trained_with() -> None:
    layer = layer_of(64, 64)
    with torch.inference_mode():
        layer.quantised()
    layer(torch.randn(4, 64, requires_grad=True)).sum().backward()
    assert layer.weight.grad is not None


# --- the model ------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["Llama", "Qwen2", "Qwen3", "Phi3", "OPT", "GPTNeoX"])
def test_all_linear_layers_but_the_head_are_swapped_and_keep_their_names(family) -> None:
    plain, policy = tiny_model(family), fp8_policy(family)
    names = {name for name, module in plain.named_modules() if isinstance(module, nn.Linear)}
    swapped = {
        name for name, module in policy.model.named_modules() if isinstance(module, Fp8Linear)
    }
    assert names - swapped == {
        name for name, m in plain.named_modules() if m is plain.get_output_embeddings()
    }
    assert plain.state_dict().keys() == policy.model.state_dict().keys()
    with policy.exact():
        ids = torch.tensor([[5, 6, 7]])
        assert torch.equal(policy.model(input_ids=ids).logits, plain(input_ids=ids).logits)
    assert not torch.equal(policy.model(input_ids=ids).logits, plain(input_ids=ids).logits)


def test_a_model_without_linear_layers_is_refused_in_one_line() -> None:
    with pytest.raises(UserError, match="no linear layer"):
        swap_linears(tiny_model("GPT2"), REFERENCE, True)


def test_precision_is_read_from_the_configuration(tmp_path) -> None:
    tiny_model().save_pretrained(tmp_path)
    characters().save_pretrained(tmp_path)
    config = ModelConfig(name=str(tmp_path), device="cpu")
    assert load_policy(config).precision is PLAIN
    kind = LearningConfig
    assert load_policy(config, precision=precision_of(kind())).precision is PLAIN
    for precision in ("fp8", "fp8_rollout"):
        asked = kind.model_validate({"fp8": {"precision": precision}})
        fp8 = load_policy(config, precision=precision_of(asked)).precision
        assert (fp8.in_training, fp8.kernel) == (precision == "fp8", REFERENCE)
        assert all(layer.active == fp8.in_training for layer in fp8.layers)
    with pytest.raises(UserError, match="no FP8 kernel works on meta"):
        kernels.choose(torch.device("meta"))
    with pytest.raises(UserError, match="quantization"):
        use_fp8(
            asked.model_copy(update={"model": ModelConfig(quantization="nf4")}),
            None,
            torch.device("cpu"),
        )


def test_a_kernel_that_is_wrong_or_not_there_is_not_taken() -> None:
    cpu = torch.device("cpu")
    assert kernels.works(REFERENCE, cpu)
    wrong = Kernel("wrong", lambda left, right, dtype: kernels.reference(left, right, dtype) * 1.1)
    assert not kernels.works(wrong, cpu) and not kernels.works(kernels.TRITON, cpu)


@pytest.mark.parametrize(
    ("rows", "columns", "side"), [(130, 257, 1), (200, 300, BLOCK), (5, 640, 1)]
)
def test_what_cublas_reads_stands_for_the_same_matrix_with_zeros_around_it(
    rows: int, columns: int, side: int
) -> None:
    ours = quantise(torch.randn(rows, columns), side)
    values, scales = ours.filled
    assert values.shape[0] % 16 == values.shape[1] % BLOCK == 0 and scales.stride(0) == 1
    by_row = scales if side == 1 else scales.t().repeat_interleave(BLOCK, 0)[: len(values)]
    stands_for = values.float() * by_row.repeat_interleave(BLOCK, 1)[:, : values.shape[1]]
    assert torch.equal(stands_for[:rows, :columns], ours.exact)
    assert not values[rows:].float().any() and not values[:, columns:].float().any()


# --- one flow -------------------------------------------------------------------------------------


def generated_group(policy: Policy, size: int = 6, stream: str = "s") -> Group:
    (group,) = BatchGenerator(policy, GenerationConfig(max_completion_length=12)).generate(
        ["ab1:"], size, stream
    )
    received = text_group(
        [k % 3 / 2 for k in range(size)], [c.text for c in episodes_of(group)], "ab1:"
    )
    return scored(received, "ab1:", received.rewards, tokens_of(group))


@pytest.mark.slow
@pytest.mark.parametrize("family", ["Llama", "Qwen2", "Qwen3", "OPT"])
@pytest.mark.parametrize("precision", ["fp8", "fp8_rollout"])
def test_every_decoder_generates_with_the_quantised_weights(family, precision) -> None:
    policy = fp8_policy(family, precision)
    assert choose_decoder(policy, "auto") is (ModelDecoder if family == "OPT" else LlamaDecoder)
    group = generated_group(policy)
    prompt = policy.encode_prompt(group.prompt)
    tokens = [tokens for tokens in tokens_of(group) if tokens is not None]
    with torch.no_grad(), policy.generating():
        found = torch.cat([plain_log_probs(policy.model, prompt, t.ids) for t in tokens])
    with torch.no_grad(), policy.exact():
        exact = torch.cat([plain_log_probs(policy.model, prompt, t.ids) for t in tokens])
    recorded = torch.tensor([value for t in tokens for value in t.log_probs])
    assert (recorded - found).abs().mean() < 0.2 * (recorded - exact).abs().mean()


def test_the_unified_flow_mismatches_far_less_than_the_mixed_one_and_reports_it() -> None:
    def kl(precision: str) -> float:
        policy = fp8_policy(precision=precision)
        report = GrpoTrainer(policy, TrainingConfig(learning_rate=1e-5), GenerationConfig()).update(
            [generated_group(policy, 16)]
        )
        assert report.mismatch_max >= report.mismatch_mean > 0
        return report.mismatch_kl

    assert kl("fp8_rollout") > 10 * kl("fp8") > 0


@pytest.mark.slow
def test_attention_generates_as_it_trains_where_that_is_in_bfloat16(monkeypatch) -> None:
    """CUDA attends in bfloat16. The decoder has its own attention, and rounds where training's
    kernel does.
    """

    def kl() -> float:
        return fp8_gpu.mismatch(fp8_gpu.QUICK, "fp8")["kl_20"]

    monkeypatch.setattr(tree_attention, "attention_dtype", lambda _device, products: products)
    unlike = kl()
    monkeypatch.setattr(llama_decoder, "attention_dtype", tree_attention.attention_dtype)
    assert kl() < unlike / 2


@pytest.mark.parametrize("family", ["Qwen2", "OPT"])
def test_the_models_own_forward_generates_as_training_computes(family) -> None:
    policy = fp8_policy(family)
    policy.autocast_dtype = torch.bfloat16
    prompt, completion = [5, 9, 13, 4], [7, 8, 6, 11, 3]
    with torch.no_grad():
        trained = policy.logits(build_tree([unrecorded(prompt, [completion])], policy.device))
        with policy.generating():
            ids = torch.tensor([prompt + completion])
            generated = policy.forward(input_ids=ids).logits[0, len(prompt) - 1 : -1]
        plain = policy.forward(input_ids=ids).logits[0, len(prompt) - 1 : -1]
    assert torch.equal(generated, trained) and not torch.equal(plain, trained)


def test_training_in_fp8_takes_packed_rows_and_follows_the_exact_gradient() -> None:
    def gradient(policy: Policy) -> torch.Tensor:
        trainer = GrpoTrainer(policy, TrainingConfig(max_grad_norm=1e9), GenerationConfig())
        assert trainer.packing is (Packing.NATIVE if policy.precision.plain else Packing.BLOCKS)
        found = gradients_of(trainer)
        texts = [["12", "3456", "7"], ["99", "12", "00"], ["1+1", "5", "abc"]]
        trainer.update([text_group([0.0, 1.0, 0.5], group) for group in texts])
        return parameters_to_vector(found)

    ours, exact = gradient(fp8_policy()), gradient(tiny_policy(eos=MANY_EOS))
    assert 0.9 < torch.cosine_similarity(ours, exact, dim=0) < 0.9999


def test_weights_move_in_the_mixed_flow_with_the_correction() -> None:
    policy = fp8_policy(precision="fp8_rollout")
    before = weights_of(policy.model)
    trainer = GrpoTrainer(policy, TrainingConfig(objective="truncated"), GenerationConfig())
    assert trainer.update([generated_group(policy)]).optimizer_steps == 1
    assert not all(map(torch.equal, before, weights_of(policy.model)))


def test_mismatch_of_known_log_probs() -> None:
    found = (
        Mismatch()
        .plus(torch.tensor([-1.0, -2.0]), torch.tensor([-1.5, -2.0]))
        .plus(torch.zeros(0), torch.zeros(0))
    )
    assert (found.tokens, found.mean, found.largest) == (2, 0.25, 0.5)
    assert found.kl == pytest.approx((torch.tensor(-0.5).exp().item() + 0.5 - 1) / 2)


def test_nodes_of_different_precision_share() -> None:
    swarm = MemorySwarm(Random(0))
    policies = [
        tiny_policy("Qwen2", eos=MANY_EOS),
        *(fp8_policy("Qwen2", p) for p in ("fp8", "fp8_rollout")),
    ]
    nodes = [make_node(n, join(swarm, n), policy=policy) for n, policy in enumerate(policies)]
    reports = run_together(nodes, 4)
    assert all(sum(round_[n].external_informative for round_ in reports) > 0 for n in range(3))
    assert all(trainer_of(node).steps > 0 for node in nodes)
    assert not any(report.rejected for round_ in reports for report in round_)
