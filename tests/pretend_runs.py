"""What is run on the pretend device: the code of a node that a card would run."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import torch

from swarm_node.generation import block, decoding, generator
from swarm_node.generation.decoding import ModelDecoder, RecomputeDecoder
from swarm_node.policy.llama.llama_decoder import LlamaDecoder
from swarm_node.policy.policy import Packing, Policy
from swarm_node.rollouts.groups import Completions
from swarm_node.settings import GenerationConfig, TrainingConfig
from swarm_node.training import checkpoint
from swarm_node.training.trainer import GrpoTrainer
from tests.groups import tokens_of
from tests.models import MANY_EOS, characters, text_group, tiny_model, token_group
from tests.pretend import Pretend, host_of, on_pretend

CONFIG = GenerationConfig(max_completion_length=18, stop_below=-4.0)
PROMPTS = ["1+1=", "a longer question:", "x"]
DECODERS = (LlamaDecoder, ModelDecoder, RecomputeDecoder)
# Runs whose code computes in float64 where it can
WITH_FLOAT64 = ("generate LlamaDecoder", "generate ModelDecoder", "train tree attention")
WAYS = {"tree attention": Packing.BLOCKS, "padded": None}


def made(
    family: str, *, lora: bool = False, autocast: torch.dtype | None = None
) -> tuple[Any, Any]:
    model = tiny_model(family, num_hidden_layers=1)
    model.generation_config.eos_token_id = list(MANY_EOS)
    if lora:
        import peft

        model = peft.get_peft_model(
            model, peft.LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM")
        )
    return model, autocast


def groups() -> list[Any]:
    local = token_group(
        [1.0, 0.0, 0.5], [[9, 10, 2], [11, 12], [13]], [[-1.0] * 3, [-1.0] * 2, [-1.0]]
    )
    return [local, text_group([0.0, 1.0], ["12", "ab"])]


class Standing:
    """Stands in for a recording, which only a card can make, and counts: takes the step itself."""

    def __init__(
        self, made: list[int], decoder: Any, drawing: Any, uniform: Any, at: Any, beside: Any = None
    ) -> None:
        made[0] += 1
        self._decoder, self._drawing = decoder, drawing

    def __call__(self, uniform: Any, at: Any) -> tuple[Any, Any]:
        after: tuple[Any, Any] = self._drawing(
            self._decoder.step(at.token, at.running), uniform, at
        )
        return after


def waits_of(trained: Policy, mode: Pretend, budget: int) -> tuple[int, int]:
    """How many micro-batches of this size an update has, and how often it waits for the device."""
    trained.__dict__["packing"] = Packing.BLOCKS
    trainer = GrpoTrainer(trained, TrainingConfig(token_budget=budget), CONFIG)
    built = Mock(side_effect=trainer._build)
    trainer._build = built  # type: ignore[method-assign]
    mode.waits.clear()
    trainer.update(groups() * 3)
    return built.call_count, sum(mode.waits.values())


def runs(device: torch.device, mode: Pretend, folder: Path) -> dict[str, Callable[[], Any]]:
    """The name of each run, and the function that does it."""
    generator.on_host = decoding.on_host = host_of(mode)  # type: ignore[attr-defined]

    def policy(family: str = "Qwen2", **options: Any) -> Policy:
        model, autocast = made(family, **options)
        return Policy(on_pretend(model, device), characters(), device, autocast, family)

    def generate(decoder: type, **options: Any) -> list[int]:
        writer = generator.BatchGenerator(policy(**options), CONFIG)
        writer._decoder_type = decoder
        mode.waits.clear()  # of the trials
        found = writer.generate(PROMPTS, 4, "s")
        return [len(tokens_of(group)) for group in found if isinstance(group, Completions)]

    def record() -> list[int]:
        """Recordings that were made after two rounds, and after twenty."""
        made, recording = [0], block._Recorded
        block._Recorded = partial(Standing, made)  # type: ignore[assignment,misc]
        try:
            written = policy(lora=True)
            written.keeps_decoder = True
            short = CONFIG.model_copy(update={"max_completion_length": 6})
            writer = generator.BatchGenerator(written, short)
            writer._decoder_type, writer._persists, writer.replays = LlamaDecoder, True, True
            counts = []
            for number in range(20):
                writer.generate(PROMPTS, 4, str(number))
                counts.append(made[0])
            return [counts[1], counts[-1]]
        finally:
            block._Recorded = recording  # type: ignore[misc]

    def train(way: Packing | None, **options: Any) -> int:
        trained = policy(**options)
        trained.__dict__["packing"] = way
        trainer = GrpoTrainer(trained, TrainingConfig(beta=0.1, num_iterations=2), CONFIG)
        return trainer.update(groups()).optimizer_steps

    def choose() -> list[str]:
        chosen = policy()
        return [generator.choose_decoder(chosen, "auto").__name__, str(chosen.packing)]

    def resume() -> int:
        model, _ = made("Qwen2")
        there = Policy(model, characters(), torch.device("cpu"), None, "Qwen2")
        first = GrpoTrainer(there, TrainingConfig(), CONFIG)
        first.update(groups())
        saved = checkpoint.save(folder, 1, there, first, {}, keep=1)
        again = GrpoTrainer(policy(), TrainingConfig(), CONFIG)
        checkpoint.restore_trainer(saved, again)
        places = {
            x.device.type
            for state in again.optimizer.state.values()
            for x in state.values()
            if x.dim()
        }
        assert places == {device.type}, places
        return again.update(groups()).optimizer_steps

    found: dict[str, Callable[[], Any]] = {
        "mixed": lambda: torch.ones(2) + torch.ones(2, device=device)
    }
    for decoder in DECODERS:
        found[f"generate {decoder.__name__}"] = lambda decoder=decoder: generate(decoder)
    found["generate LlamaDecoder bfloat16"] = lambda: generate(
        LlamaDecoder, autocast=torch.bfloat16
    )
    found["generate LlamaDecoder LoRA"] = lambda: generate(LlamaDecoder, lora=True)
    found["generate ModelDecoder LoRA"] = lambda: generate(ModelDecoder, lora=True)
    found["recordings"] = record
    for name, way in WAYS.items():
        found[f"train {name}"] = lambda way=way: train(way)
    found["train tree attention LoRA"] = lambda: train(Packing.BLOCKS, lora=True)
    found["micro-batches"] = lambda: [waits_of(policy(), mode, budget) for budget in (4096, 16)]
    found["trials"] = choose
    found["resume"] = resume
    return found
