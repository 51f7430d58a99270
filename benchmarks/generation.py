"""Our generation loop beside Hugging Face `generate`: same model, same prompts, same number of tokens, text to text.

Both sides take prompts as text and give completions as text; ours also records log-probs. The competitor is the faster
of HF's dynamic and static cache.
"""

from collections.abc import Callable
from itertools import count
from typing import Any, Literal

import torch

from benchmarks import command, common
from swarm_node.compute.generation.generator import BatchGenerator
from swarm_node.compute.policy import Policy
from swarm_node.rollouts.groups import GeneratedGroup
from swarm_node.settings import GenerationConfig

Work = Callable[[], object]
DEMANDS = {"HF's forward": 2.0, "ours in float32": 3.0, "ours in bfloat16": 5.0}
HEADLINE = "ours in float32"


def hugging_face(model: Any, tokenizer: Any, texts: list[str], load: common.Workload, cache: str) -> Work:
    """`generate` on every prompt repeated to its group, left padded."""
    repeated = [text for text in texts for _ in range(common.GROUP_SIZE)]

    def work() -> list[str]:
        encoded = tokenizer(repeated, return_tensors="pt", padding=True)
        generated = model.generate(
            input_ids=encoded.input_ids,
            attention_mask=encoded.attention_mask,
            do_sample=True,
            top_k=0,
            max_new_tokens=load.new_tokens,
            cache_implementation=cache,
            disable_compile=True,
        )[:, encoded.input_ids.shape[1] :]
        assert generated.numel() == load.tokens
        return list(tokenizer.batch_decode(generated, skip_special_tokens=True))

    return work


def ours(policy: Policy, texts: list[str], load: common.Workload, decoder: Literal["native", "model"]) -> Work:
    config = GenerationConfig(num_generations=common.GROUP_SIZE, max_completion_length=load.new_tokens, decoder=decoder)
    generator = BatchGenerator(policy, config)
    streams = count()

    def work() -> None:
        groups = generator.generate(texts, common.GROUP_SIZE, f"benchmark/{next(streams)}")
        generated = [group for group in groups if isinstance(group, GeneratedGroup)]
        assert sum(len(tokens.ids) for group in generated for tokens in group.tokens) == load.tokens

    return work


def measure(size: str, load: common.Workload) -> dict[str, Any]:
    """All sides for one model size, relative to the better `generate`."""
    model, tokenizer = common.model(size).eval(), common.tokenizer()
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
    spreads = common.in_turn(sides, load.repetitions, size)
    reference = min(("HF dynamic cache", "HF static cache"), key=lambda name: spreads[name].median)
    return {"reference": reference, "sides": common.compared(spreads, reference, load.tokens)}


def main() -> None:
    arguments = common.parser("benchmarks.generation", __doc__, "tiny", "1M", "10M").parse_args()
    common.settle()
    load = common.workload(arguments)
    results = {size: measure(size, load) for size in load.sizes}
    lines = [line for size in load.sizes for line in common.side_lines(size, results[size]["sides"], DEMANDS)]
    command.show(common.SIDE_HEADER, lines)
    last = results[load.sizes[-1]]
    headline = last["sides"][HEADLINE]
    result = {
        "ratio": headline["ratio"]["median"],
        "ours": {"name": HEADLINE, **headline},
        "theirs": {"name": last["reference"], **last["sides"][last["reference"]]},
        "sizes": results,
        "demands": DEMANDS,
        "settings": common.settings(load),
    }
    command.finish(arguments, result)


if __name__ == "__main__":
    main()
