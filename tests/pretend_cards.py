"""The models of a first run on a card, in their real widths, on the pretend device.

`python -m tests.pretend_cards` makes two blocks of each model, and its whole vocabulary, with
adapters over a base in bfloat16. It lets the model write a few tokens, trains it on a group, and
prints what became of each as JSON. Tensors there have shape and type and no numbers, so they take
no memory. This shows that the code which a card would run takes these models; it shows no speed, no
memory and no learning.
"""

import json
import sys
from functools import partial
from typing import Any

import torch

from tests.pretend import host_of, on_pretend, pretending

BLOCKS = 2  # of each model


def main() -> None:
    inference, torch.inference_mode = torch.inference_mode, torch.no_grad  # type: ignore[misc]  # fakes have none
    import peft
    from transformers import AutoModelForCausalLM

    from lab.benchmarks.shapes import shapes
    from swarm_node.generation import decoding, generator
    from swarm_node.policy.by_card import CHOICES
    from swarm_node.policy.llama.llama_decoder import LlamaDecoder
    from swarm_node.policy.policy import Packing, Policy
    from swarm_node.rollouts.groups import Completions
    from swarm_node.settings import GenerationConfig, TrainingConfig
    from swarm_node.training.trainer import GrpoTrainer
    from tests.groups import tokens_of
    from tests.models import characters, token_group

    torch.inference_mode = inference  # type: ignore[misc]
    short = GenerationConfig(max_completion_length=4)

    def policy_of(name: str, device: torch.device) -> Policy:
        shape = shapes()[name]
        shape.num_hidden_layers, shape.layer_types = BLOCKS, shape.layer_types[:BLOCKS]
        with torch.device("meta"):
            model: Any = AutoModelForCausalLM.from_config(shape, dtype=torch.bfloat16)
            adapters = peft.LoraConfig(r=16, target_modules="all-linear", task_type="CAUSAL_LM")
            model = peft.get_peft_model(model, adapters)
        return Policy(on_pretend(model, device), characters(), device, torch.bfloat16, name)

    def tried(name: str, device: torch.device) -> dict[str, Any]:
        policy = policy_of(name, device)
        writer = generator.BatchGenerator(policy, short)
        writer._decoder_type = LlamaDecoder
        groups = writer.generate(["1+1=", "a longer question:"], 2, "s")
        written = [len(tokens_of(group)) for group in groups if isinstance(group, Completions)]
        policy.__dict__["packing"] = Packing.BLOCKS
        trainer = GrpoTrainer(policy, TrainingConfig(), short)
        lesson = token_group([1.0, 0.0], [[9, 10, 2], [11, 12]], [[-1.0] * 3, [-1.0] * 2])
        steps = trainer.update([lesson]).optimizer_steps
        weights = sum(weight.numel() for weight in policy.model.parameters())
        return {"written": written, "steps": steps, "weights": weights}

    found: dict[str, Any] = {}
    with pretending() as (device, mode):
        generator.on_host = decoding.on_host = host_of(mode)  # type: ignore[attr-defined]
        for name in dict.fromkeys(choice.model.name for choice in CHOICES):
            mode.waits.clear()
            found[name] = attempted(partial(tried, name, device))
    sys.stdout.write(json.dumps(found) + "\n")


def attempted(work: Any) -> dict[str, Any]:
    """What the work returns, or why it failed."""
    try:
        made: dict[str, Any] = work()
    except Exception as error:  # noqa: BLE001  the test says which
        lines = str(error).splitlines() or [""]
        return {"failed": f"{type(error).__name__}: {lines[0][:300]}"}
    return made


if __name__ == "__main__":
    main()
