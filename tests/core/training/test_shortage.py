"""Memory runs out in any phase: the node goes on with less, or stops with one line, and never with
a traceback.
"""

from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from swarm_node.common.errors import UserError
from swarm_node.generation.generator import BatchGenerator
from swarm_node.node.checkpoints import CheckpointWriter
from swarm_node.node.evaluation import Measured
from swarm_node.policy.device import OutOfMemory, attempt, is_shortage, pin, probed
from swarm_node.policy.loading import load_policy
from swarm_node.rollouts.groups import Skipped
from swarm_node.settings import GenerationConfig, ModelConfig, NodeConfig, TrainingConfig
from swarm_node.telemetry.events import CheckpointSaved, Event, Telemetry, Warned
from swarm_node.training.trainer import GrpoTrainer
from tests.groups import episodes_of
from tests.models import (
    LESSON,
    MANY_EOS,
    characters,
    make_node,
    tiny_model,
    tiny_policy,
    weights_of,
)

SAID = (
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 594.00 MiB"),
    RuntimeError(
        "[enforce fail at alloc_cpu.cpp:130] err == 0. DefaultCPUAllocator: can't allocate memory"
    ),
    RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    RuntimeError("CUDA error: out of memory"),
    MemoryError(),
    OSError(12, "Cannot allocate memory"),
)


def fail(*_args, **_options):
    raise SAID[0]


def trainer_of(policy, recompute=None, **training) -> GrpoTrainer:
    config = TrainingConfig(learning_rate=1e-2, **training)
    return GrpoTrainer(policy, config, GenerationConfig(), recompute=recompute)


@pytest.mark.parametrize("error", SAID, ids=str)
def test_what_libraries_say_of_it_is_known(error) -> None:
    def work() -> None:
        raise error

    with pytest.raises(
        OutOfMemory, match=r"^out of memory in a test: .*check.* says what would fit$"
    ) as raised:
        attempt(work, "in a test")
    assert raised.value.__context__ is None  # no frame that holds tensors is left
    assert isinstance(raised.value, UserError)


@pytest.mark.parametrize(
    "error", [RuntimeError("sizes of tensors must match"), OSError(28, "No space left"), KeyError()]
)
def test_other_errors_stay_what_they_are(error) -> None:
    assert not is_shortage(error)

    def work() -> None:
        raise error

    with pytest.raises(type(error)):
        attempt(work, "in a test")
    assert probed(work, "in a test") is None


def test_a_shortage_that_another_error_came_in_the_place_of_is_one() -> None:
    """As torch says it where memory runs out while a CUDA graph is recorded. Needs a card to show
    that torch still does.
    """

    class Recording:
        def __enter__(self) -> None:
            pass

        def __exit__(self, *_: object) -> None:
            text = "CUDA error: operation failed due to a previous error during capture"
            raise RuntimeError(text)

    def work() -> None:
        with Recording():
            raise SAID[0]

    with pytest.raises(OutOfMemory):
        attempt(work, "in a test")


def test_memory_that_cannot_be_pinned_leaves_no_error_for_the_next_kernel(monkeypatch) -> None:
    """CUDA keeps the error of a call that failed, and the next kernel raises it. Needs a card to
    show that CUDA does.
    """
    kept: list[str] = []
    ones = torch.ones

    class Runtime:
        refuses = True

        def cudaHostRegister(self, *_: int) -> int:
            kept.extend(["CUDA error: out of memory"] * self.refuses)
            return 2 * self.refuses

    def kernel(*size: int, device: str = "cpu") -> torch.Tensor:
        if device == "cuda" and kept:
            raise RuntimeError(kept.pop())
        return ones(*size)

    runtime = Runtime()
    monkeypatch.setattr(torch.cuda, "cudart", lambda: runtime)
    monkeypatch.setattr(torch, "ones", kernel)
    assert not pin(torch.zeros(8))
    assert torch.ones(1, device="cuda") == 1.0
    runtime.refuses = False
    assert pin(torch.zeros(8))


def test_loading(tmp_path, monkeypatch) -> None:
    tiny_model().save_pretrained(tmp_path)
    characters().save_pretrained(tmp_path)
    monkeypatch.setattr(AutoModelForCausalLM, "from_pretrained", fail)
    with pytest.raises(OutOfMemory, match="in loading model"):
        load_policy(ModelConfig(name=str(tmp_path), device="cpu"))


def test_probing_says_so_and_does_not_take_a_worse_way() -> None:
    policy = tiny_policy()
    policy.model.get_input_embeddings().register_forward_pre_hook(fail)
    with pytest.raises(OutOfMemory):
        _ = policy.packing
    with pytest.raises(OutOfMemory):
        BatchGenerator(policy, GenerationConfig())


@pytest.mark.slow
def test_generating_halves_what_is_too_much_together_and_skips_what_is_too_much_alone() -> None:
    policy, prompts = tiny_policy(eos=MANY_EOS), ["1:", "22:", "3:", "a longer one:"]
    generator = BatchGenerator(policy, GenerationConfig(max_completion_length=8), decoder="model")
    whole = generator.generate(prompts, 2, "s")
    refused = []

    def limit(_, inputs) -> None:
        rows, columns = inputs[0].shape
        if rows > 2 or columns > 10:
            refused.append((rows, columns > 1))
            fail()

    policy.model.get_input_embeddings().register_forward_pre_hook(limit)
    parts = generator.generate(prompts, 2, "s")
    assert [episodes_of(group) for group in parts[:3]] == [
        episodes_of(group) for group in whole[:3]
    ]
    assert parts[3] == Skipped("out of device memory")
    # In reading prompts and in drawing tokens
    assert {(4, True), (4, False), (1, True)} <= {*refused}


def test_what_fitted_after_a_shortage_is_remembered() -> None:
    policy, prompts = tiny_policy(eos=MANY_EOS), ["1:", "2:", "3:", "4:"]
    generator = BatchGenerator(policy, GenerationConfig(max_completion_length=8), decoder="model")
    whole, fed = generator.generate(prompts, 2, "s"), []

    def limit(_, inputs) -> None:
        fed.append(len(inputs[0]))
        if len(inputs[0]) > 4:  # the rows of two prompts
            fail()

    policy.model.get_input_embeddings().register_forward_pre_hook(limit)
    for _ in range(2):
        parts = generator.generate(prompts, 2, "s")
        assert [episodes_of(group) for group in parts] == [episodes_of(group) for group in whole]
    assert sum(rows > 4 for rows in fed) == 1, "it tried the whole round again"


def test_forward_blocks_are_computed_again_before_anything_is_halved() -> None:
    policy = tiny_policy()
    before, trainer = weights_of(policy.model), trainer_of(policy)
    failures = iter([True])

    def once(*_) -> None:
        if next(failures, False):
            fail()

    policy.model.get_input_embeddings().register_forward_pre_hook(once)
    report = trainer.update([LESSON])
    assert (report.optimizer_steps, report.halvings) == (1, 0)
    assert policy.checkpointing and not all(map(torch.equal, before, weights_of(policy.model)))


def test_backward_takes_the_step_that_it_would_have_taken() -> None:
    found = []
    for short in (False, True):
        policy = tiny_policy()
        trainer = trainer_of(policy, recompute=False)
        if short:
            failures = iter([True])
            policy.model.model.norm.weight.register_hook(
                lambda g, f=failures: fail() if next(f, False) else g
            )
        assert trainer.update([LESSON]).halvings == short
        found.append(weights_of(policy.model))
        assert trainer.update([LESSON]).halvings == 0, "it knows now what fits"
    for roomy, tight in zip(*found, strict=True):
        assert torch.allclose(roomy, tight, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("iterations", [1, 2])
def test_where_not_even_one_micro_batch_fits_no_step_is_taken(iterations) -> None:
    policy = tiny_policy()
    before, trainer = weights_of(policy.model), trainer_of(policy, num_iterations=iterations)
    policy.model.get_input_embeddings().register_forward_pre_hook(fail)
    report = trainer.update([LESSON])
    assert (report.optimizer_steps, report.skipped) == (0, {"out of device memory": 1})
    assert all(map(torch.equal, before, weights_of(policy.model)))
    assert not trainer.stepping


def test_the_optimiser_stops_in_one_line_and_leaves_weights_as_they_were() -> None:
    policy = tiny_policy()
    before, trainer = weights_of(policy.model), trainer_of(policy)
    trainer.optimizer.register_step_pre_hook(fail)  # as when Adam makes its state
    with pytest.raises(OutOfMemory, match="in the optimiser's step"):
        trainer.update([LESSON])
    assert all(map(torch.equal, before, weights_of(policy.model)))


def test_a_checkpoint_is_given_up_with_a_warning(tmp_path, monkeypatch) -> None:
    node, seen = make_node(), []

    class Sink:
        def take(self, event: Event) -> None:
            seen.append(event)

        def close(self) -> None:
            pass

    keeper = CheckpointWriter(
        NodeConfig(home=tmp_path),
        node,
        node.trainer.policy,
        Telemetry([Sink()]),
        Measured(),
        lambda: 0.0,
    )
    keeper.save(1, [])
    monkeypatch.setattr("swarm_node.training.trainer.save_file", fail)
    keeper.save(2, [])
    assert [type(event) for event in seen] == [CheckpointSaved, Warned]
    assert [path.name for path in Path(tmp_path, "checkpoints").iterdir()] == ["00000001"]
