"""Our generation loop beside Hugging Face `generate`: same model, same prompts, same number of
tokens, text to text.

Both sides take prompts as text and give completions as text; ours also records log-probs. The
competitor is the faster of HF's dynamic and static cache. `--gpu` measures real shapes on CUDA, in
wall seconds.
"""

from collections.abc import Callable
from itertools import count
from typing import Any, Literal

import peft
import torch

from lab.benchmarks import command, common
from swarm_node.generation.generator import BatchGenerator
from swarm_node.generation.vllm.generator import VllmGenerator
from swarm_node.policy.policy import Policy
from swarm_node.rollouts.groups import Completions
from swarm_node.settings import GenerationConfig

Work = Callable[[], object]
HEADLINE = "ours in float32"


def hugging_face(
    model: Any,
    tokenizer: Any,
    texts: list[str],
    load: common.Workload,
    cache: str,
    compiled: bool = False,
) -> Work:
    """`generate` on every prompt, repeated for its group and padded on the left. `compiled`: with
    CUDA graphs, too.
    """
    repeated = [text for text in texts for _ in range(common.GROUP_SIZE)]

    def work() -> list[str]:
        encoded = tokenizer(repeated, return_tensors="pt", padding=True).to(model.device)
        generated = model.generate(
            input_ids=encoded.input_ids,
            attention_mask=encoded.attention_mask,
            do_sample=True,
            top_k=0,
            max_new_tokens=load.new_tokens,
            cache_implementation=cache,
            disable_compile=not compiled,
        )[:, encoded.input_ids.shape[1] :]
        assert generated.numel() == load.tokens
        return list(tokenizer.batch_decode(generated, skip_special_tokens=True))

    return work


def ours(
    policy: Policy,
    texts: list[str],
    load: common.Workload,
    decoder: Literal["native", "model"],
    graphs: bool = True,
) -> Work:
    config = GenerationConfig(
        num_generations=common.GROUP_SIZE, max_completion_length=load.new_tokens
    )
    made = BatchGenerator(policy, config, decoder=decoder, graphs=graphs)
    return writing(made, texts, load)


def writing(
    generator: BatchGenerator | VllmGenerator, texts: list[str], load: common.Workload
) -> Work:
    streams = count()

    def work() -> None:
        groups = generator.generate(texts, common.GROUP_SIZE, f"benchmark/{next(streams)}")
        generated = [group for group in groups if isinstance(group, Completions)]
        samples = [sample for group in generated for sample in group.samples]
        assert sum(len(sample.tokens.ids) for sample in samples if sample.tokens) == load.tokens

    return work


def on_a_card(size: str, load: common.Workload) -> dict[str, Any]:
    """All sides for one model size on CUDA: ours with float32 weights and products in bfloat16, as
    in a node; HF's with bfloat16 weights.
    """
    device = torch.device("cuda")
    model, tokenizer = common.model(size).eval().to(device), common.tokenizer(size)
    texts = common.prompts(load.prompt_lengths)
    policy = Policy(model, tokenizer, device, torch.bfloat16)
    theirs = common.model(size).eval().to(device, torch.bfloat16)
    adapted = peft.LoraConfig(r=16, target_modules="all-linear", task_type="CAUSAL_LM")
    lora = Policy(
        peft.get_peft_model(common.model(size).to(device), adapted),
        tokenizer,
        device,
        torch.bfloat16,
    )
    sides = {
        "HF dynamic cache": hugging_face(theirs, tokenizer, texts, load, "dynamic"),
        "HF static cache": hugging_face(theirs, tokenizer, texts, load, "static", compiled=True),
        "HF's forward": ours(policy, texts, load, "model"),
        "ours without CUDA graphs": ours(policy, texts, load, "native", graphs=False),
        "ours in bfloat16": ours(policy, texts, load, "native"),
        "ours with LoRA": ours(lora, texts, load, "native"),
    }
    return _result(common.in_turn(sides, load.repetitions, size, common.gpu_seconds), load)


def measure(size: str, load: common.Workload) -> dict[str, Any]:
    """All sides for one model size, relative to the faster `generate`."""
    model, tokenizer = common.model(size).eval(), common.tokenizer(size)
    texts = common.prompts(load.prompt_lengths)
    cpu = torch.device("cpu")
    float32, bfloat16 = Policy(model, tokenizer, cpu), Policy(model, tokenizer, cpu, torch.bfloat16)
    sides = {
        "HF dynamic cache": hugging_face(model, tokenizer, texts, load, "dynamic"),
        "HF's forward": ours(float32, texts, load, "model"),
        "HF static cache": hugging_face(model, tokenizer, texts, load, "static"),
        "ours in float32": ours(float32, texts, load, "native"),
        "ours in bfloat16": ours(bfloat16, texts, load, "native"),
    }
    return _result(common.in_turn(sides, load.repetitions, size), load)


def _result(spreads: dict[str, common.Spread], load: common.Workload) -> dict[str, Any]:
    reference = min(("HF dynamic cache", "HF static cache"), key=lambda name: spreads[name].median)
    return {"reference": reference, "sides": common.compared(spreads, reference, load.tokens)}


def main() -> None:
    parser = common.parser("lab.benchmarks.generation", __doc__, "tiny", "1M", "10M")
    parser.add_argument(
        "--gpu", action="store_true", help="real shapes on CUDA, 256 new tokens, in wall seconds"
    )
    arguments = parser.parse_args()
    if arguments.gpu and not torch.cuda.is_available():
        parser.error("--gpu needs a CUDA device, and there is none")
    common.settle()
    load = common.workload(arguments)
    results = {size: (on_a_card if arguments.gpu else measure)(size, load) for size in load.sizes}
    lines = [
        line for size in load.sizes for line in common.side_lines(size, results[size]["sides"])
    ]
    command.show(common.SIDE_HEADER, lines)
    last = results[load.sizes[-1]]
    name = "ours in bfloat16" if arguments.gpu else HEADLINE
    headline = last["sides"][name]
    result = {
        "ratio": headline["ratio"]["median"],
        "ours": {"name": name, **headline},
        "theirs": {"name": last["reference"], **last["sides"][last["reference"]]},
        "sizes": results,
        "settings": common.settings(load),
    }
    command.finish(arguments, result)


if __name__ == "__main__":
    main()
