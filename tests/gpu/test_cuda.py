"""The same node on a CUDA device. Run with `pytest -m gpu` where there is one; skipped
elsewhere.
"""

import pytest
import torch

from protocol.messages import PeerId
from swarm_node.generation.generator import BatchGenerator
from swarm_node.policy.aside import Aside
from swarm_node.policy.device import is_shortage, pin
from swarm_node.policy.fp8 import kernels
from swarm_node.policy.fp8.quantise import quantise
from swarm_node.policy.loading import load_policy
from swarm_node.rollouts.groups import Completions, Group
from swarm_node.settings import GenerationConfig, ModelConfig, TrainingConfig
from swarm_node.training.trainer import GrpoTrainer
from tests.groups import episodes_of, group, scored, tokens_of
from tests.models import GENERATION, LESSON, tiny_policy

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]
PROMPTS = ["What is the greatest common divisor of 12 and 18?", "5 + 3 ="]


def generated(policy_config: ModelConfig, decoder: str, graphs: bool = True) -> list[Completions]:
    generator = BatchGenerator(
        load_policy(policy_config), GenerationConfig(), decoder=decoder, graphs=graphs
    )
    assert generator.replays == (graphs and policy_config.device == "cuda" and decoder == "native")
    return [each for each in generator.generate(PROMPTS, 8, "gpu") if isinstance(each, Completions)]


def with_rewards(generated: list[Completions]) -> list[Group]:
    """Every second completion is right."""
    return [
        scored(
            group(PeerId("a"), index=i).model_copy(update={"episodes": episodes_of(each)}),
            PROMPTS[i],
            tuple(float(k % 2) for k in range(8)),
            tokens_of(each),
        )
        for i, each in enumerate(generated)
    ]


def test_decoders_agree_with_each_other_and_with_the_cpu() -> None:
    on_cpu = generated(ModelConfig(name="dense", device="cpu"), "native")
    for decoder in ("native", "model"):
        on_gpu = generated(ModelConfig(name="dense", device="cuda", dtype="float32"), decoder)
        same = [
            a.text == b.text
            for one, other in zip(on_cpu, on_gpu, strict=True)
            for a, b in zip(episodes_of(one), episodes_of(other), strict=True)
        ]
        # A draw on the edge of two tokens may fall to the other side
        assert sum(same) >= 0.9 * len(same)


@pytest.mark.parametrize("lora_rank", [0, 4])
def test_steps_that_are_replayed_write_what_steps_that_are_not_write(lora_rank: int) -> None:
    config = ModelConfig(name="dense", device="cuda", lora_rank=lora_rank)
    replayed, stepped = (generated(config, "native", graphs) for graphs in (True, False))
    assert [episodes_of(group) for group in replayed] == [episodes_of(group) for group in stepped]


@pytest.mark.parametrize("padded", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "auto"])
def test_an_update_has_ratio_one_at_first_and_moves_the_weights(padded: bool, dtype: str) -> None:
    policy = load_policy(ModelConfig(name="dense", device="cuda", dtype=dtype))
    generation = GenerationConfig()
    groups = BatchGenerator(policy, generation).generate(PROMPTS, 8, "gpu")
    before = policy.model.get_input_embeddings().weight.detach().clone()
    trainer = GrpoTrainer(policy, TrainingConfig(), generation, padded=padded)
    report = trainer.update(
        with_rewards([group for group in groups if isinstance(group, Completions)])
    )
    assert report.optimizer_steps == 1 and (trainer.packing is None) == padded
    assert report.ratio_mean == pytest.approx(1.0, abs=1e-4 if dtype == "float32" else 0.05)
    assert not torch.equal(before, policy.model.get_input_embeddings().weight)


def test_lora_trains_adapters_over_a_bfloat16_base() -> None:
    policy = load_policy(ModelConfig(name="dense", device="cuda", lora_rank=4))
    groups = BatchGenerator(policy, GenerationConfig()).generate(PROMPTS, 8, "gpu")
    report = GrpoTrainer(policy, TrainingConfig(), GenerationConfig()).update(
        with_rewards([group for group in groups if isinstance(group, Completions)])
    )
    assert report.optimizer_steps == 1


@pytest.mark.parametrize("kernel", [kernels.TRITON, kernels.CUBLAS], ids=["Triton", "cuBLAS"])
def test_fp8_kernels_give_what_the_reference_gives_at_the_sizes_of_a_model(
    kernel: kernels.Kernel,
) -> None:
    capability = torch.cuda.get_device_capability()
    if capability < (8, 9) or (kernel is kernels.CUBLAS and capability[0] != 9):
        pytest.skip("this device has no such products")
    assert kernels.works(kernel, torch.device("cuda"))
    assert kernels.choose(torch.device("cuda")) is (
        kernels.CUBLAS if capability[0] == 9 else kernels.TRITON
    )
    torch.manual_seed(0)
    x, weight, dy = (
        torch.randn(size, device="cuda").bfloat16()
        for size in ((4099, 896), (4864, 896), (4099, 4864))
    )
    for view, side in ((x, 1), (x.t(), 1), (dy.t(), 1), (weight, 128)):
        assert kernels.same(kernel.quantise(view, side), quantise(view, side))
    backwards = kernel.quantise(weight, 128).transposed()
    for left, right in (
        (kernel.quantise(x), kernel.quantise(weight, 128)),
        (kernel.quantise(x[:1]), kernel.quantise(weight, 128)),
        (kernel.quantise(dy), backwards),
        (kernel.quantise(dy.t()), kernel.quantise(x.t())),
    ):
        ours, exact = (
            kernel.product(left, right, torch.float32),
            kernels.reference(left, right, torch.float32),
        )
        assert (ours - exact).norm() < 1e-3 * exact.norm()


def test_one_decoder_writes_all_rounds_of_adapters_as_new_ones_would() -> None:
    policy = load_policy(ModelConfig(name="dense", device="cuda", lora_rank=4))
    kept = BatchGenerator(policy, GenerationConfig())
    for number in range(3):
        anew = BatchGenerator(policy, GenerationConfig(), graphs=False)
        ours, reference = (each.generate(PROMPTS, 8, str(number)) for each in (kept, anew))
        assert [episodes_of(group) for group in ours] == [episodes_of(group) for group in reference]
        with torch.no_grad():
            for weight in policy.model.parameters():
                if weight.requires_grad:
                    weight.add_(0.01 * torch.randn_like(weight))
        policy.version += 1


def test_memory_that_is_pinned_already_leaves_no_error_for_the_next_kernel() -> None:
    memory = torch.zeros(2**20, dtype=torch.uint8)
    assert pin(memory) and not pin(memory)
    assert float(torch.ones(8, device="cuda").sum()) == 8.0


def test_memory_that_runs_out_in_a_recording_is_a_shortage() -> None:
    more = torch.cuda.mem_get_info()[1]  # than there is
    with pytest.raises(Exception) as raised, torch.cuda.graph(torch.cuda.CUDAGraph()):
        torch.empty(more, dtype=torch.uint8, device="cuda")
    assert is_shortage(raised.value), raised.value


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices")
def test_a_second_card_replays_too() -> None:
    policy = load_policy(ModelConfig(name="dense", device="cuda:1"))
    assert BatchGenerator(policy, GenerationConfig(), decoder="native").replays


def test_on_a_card_memory_is_given_back_and_training_goes_on_with_the_same_numbers() -> None:
    policy = tiny_policy("Qwen2", hidden_size=256, intermediate_size=1024)
    policy.model.to("cuda")
    policy.device = torch.device("cuda")
    trainer = GrpoTrainer(policy, TrainingConfig(), GENERATION)
    trainer.update([LESSON])
    before, held = [tensor.cpu() for tensor in trainer.held()], torch.cuda.memory_allocated()
    away = Aside(trainer.held)
    away.leave()
    assert {tensor.device.type for tensor in trainer.held()} == {"cpu"}
    assert torch.cuda.memory_allocated() < held / 10
    assert away.come_back()
    assert all(
        torch.equal(one, other.cpu()) for one, other in zip(before, trainer.held(), strict=True)
    )
    assert trainer.update([LESSON]).optimizer_steps == 1
