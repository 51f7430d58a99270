"""FP8 on a CUDA device in one call of under ten minutes: products, writing, training, mismatch by length, memory.

Architectures of 0.5 B, 1.5 B and 7 B with random weights. Prints a table as it goes; what does not fit is left out.
Published by Jet-RL (arXiv 2601.14243) against BF16: writing up to 1.33x, training up to 1.41x, end to end 1.16x.
"""

import gc
import json
import time
from collections.abc import Callable
from typing import Any

import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from benchmarks import common
from swarm_node.algorithm import tree
from swarm_node.algorithm.distribution import SamplingRule, log_probs_of
from swarm_node.algorithm.mismatch import Mismatch
from swarm_node.algorithm.rows import Row
from swarm_node.compute.generator import BatchGenerator
from swarm_node.compute.policy import Policy
from swarm_node.compute.precision import kernels
from swarm_node.compute.precision.linear import swap_linears
from swarm_node.compute.precision.quantise import quantise
from swarm_node.config import GenerationConfig
from swarm_node.rollouts.groups import Written

BUDGET = 540.0  # seconds; what would start later is left out
GIBIBYTE = 2**30
SIZES = {  # hidden, layers, feed-forward, heads, key-value heads
    "0.5B": (896, 24, 4864, 14, 2),
    "1.5B": (1536, 28, 8960, 12, 2),
    "7B": (3584, 28, 18944, 28, 4),
}
TRAINED_TOKENS, WRITTEN_TOKENS = 8192, 256
LENGTHS = (1024, 4096, 16384)
CUDA = torch.device("cuda")


def seconds(work: Callable[[], object], repetitions: int = 3) -> float:
    """Least wall time of a call, after one unmeasured."""
    taken = []
    for _ in range(repetitions + 1):
        torch.cuda.synchronize()
        start = time.perf_counter()
        work()
        torch.cuda.synchronize()
        taken.append(time.perf_counter() - start)
    return min(taken[1:])


def policy(size: str, precision: str, longest: int = 2048) -> Policy:
    hidden, layers, feed_forward, heads, kv_heads = SIZES[size]
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=len(common.tokenizer()),
        hidden_size=hidden,
        num_hidden_layers=layers,
        intermediate_size=feed_forward,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        max_position_embeddings=longest,
        tie_word_embeddings=True,
    )
    with torch.device(CUDA):
        model = Qwen2ForCausalLM(config).to(torch.bfloat16)
    model.generation_config.eos_token_id = config.vocab_size  # never written
    made = Policy(model, common.tokenizer(), CUDA, None)
    if precision != "bf16":
        made.fp8 = swap_linears(model, kernels.choose(CUDA, "auto"), precision == "fp8")
    return made


def products(size: str) -> dict[str, float]:
    """Of the widest layer, 8192 tokens: milliseconds in BF16, in FP8, and in FP8 with quantising what is new."""
    hidden, _, feed_forward, _, _ = SIZES[size]
    kernel = kernels.choose(CUDA, "auto")
    x, weight = (torch.randn(n, hidden, device=CUDA, dtype=torch.bfloat16) for n in (TRAINED_TOKENS, feed_forward))
    left, right = quantise(x, kernel.recipe), quantise(weight, kernel.recipe, kernel.recipe.side)
    return {
        "bf16_ms": 1e3 * seconds(lambda: x @ weight.t(), 20),
        "fp8_ms": 1e3 * seconds(lambda: kernel.product(left, right, torch.bfloat16), 20),
        "fp8_quantising_ms": 1e3
        * seconds(lambda: kernel.product(quantise(x, kernel.recipe), right, torch.bfloat16), 20),
    }


def one_step(made: Policy) -> Callable[[], None]:
    """Forward and backward over one packed row."""
    row = Row([5] * 1024, [[6] * 512] * ((TRAINED_TOKENS - 1024) // 512))
    batch = tree.build([row], CUDA)

    def work() -> None:
        made.model.zero_grad(set_to_none=True)
        loss = log_probs_of(made.logits(batch), batch.target, SamplingRule()).mean()
        loss.backward()  # type: ignore[no-untyped-call]

    return work


def speeds(size: str, precision: str) -> dict[str, float]:
    """Tokens per second of writing and of training apart, and peak memory."""
    made = policy(size, precision)
    torch.cuda.reset_peak_memory_stats()
    trained = seconds(one_step(made), 2)
    made.model.zero_grad(set_to_none=True)
    training_memory = torch.cuda.max_memory_allocated() / GIBIBYTE
    torch.cuda.reset_peak_memory_stats()
    generator = BatchGenerator(made, GenerationConfig(max_completion_length=WRITTEN_TOKENS))
    texts = common.prompts([100] * 8)
    written = seconds(lambda: generator.generate(texts, common.GROUP_SIZE, "fp8"), 1)
    return {
        "written_per_second": 8 * common.GROUP_SIZE * WRITTEN_TOKENS / written,
        "trained_per_second": TRAINED_TOKENS / trained,
        "end_to_end_seconds": written + trained,
        "training_gib": training_memory,
        "writing_gib": torch.cuda.max_memory_allocated() / GIBIBYTE,
    }


@torch.no_grad()
def mismatch(precision: str, length: int) -> dict[str, float]:
    made = policy("0.5B", precision, 2 * length)
    generator = BatchGenerator(made, GenerationConfig(max_completion_length=length))
    (written,) = generator.generate(common.prompts([100]), 2, "fp8")
    assert isinstance(written, Written)
    row = Row(made.encode_prompt(common.prompts([100])[0]), [list(tokens.ids) for tokens in written.tokens])
    batch = tree.build([row], CUDA)
    trained = log_probs_of(made.logits(batch), batch.target, SamplingRule()).cpu()
    found = Mismatch().plus(torch.tensor([p for tokens in written.tokens for p in tokens.log_probs]), trained)
    return {"kl": found.kl, "mean": found.mean, "max": found.largest}


def main() -> None:
    parser = common.parser("fp8_gpu", (__doc__ or "").splitlines()[0])
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("needs a CUDA device, and there is none; benchmarks.fp8 runs on a CPU")
    common.settle()
    started, results = time.perf_counter(), {}
    print(f"{torch.cuda.get_device_name()}: {kernels.choose(CUDA, 'auto').name}", flush=True)
    todo: list[tuple[str, Callable[[], dict[str, float]]]] = [
        *((f"products {size}", lambda size=size: products(size)) for size in SIZES),
        *((f"speed {s} {p}", lambda s=s, p=p: speeds(s, p)) for s in SIZES for p in ("bf16", "fp8")),
        *(
            (f"mismatch {n} {p}", lambda n=n, p=p: mismatch(p, n))
            for n in LENGTHS
            for p in ("bf16", "fp8", "fp8_rollout")
        ),
    ]
    for name, work in todo:
        if time.perf_counter() - started > BUDGET:
            print(f"{name}: left out, the time is up", flush=True)
            continue
        try:
            results[name] = work()
            print(f"{name}: " + ", ".join(f"{k} {v:.4g}" for k, v in results[name].items()), flush=True)
        except torch.OutOfMemoryError:
            print(f"{name}: does not fit into memory", flush=True)
        gc.collect()
        torch.cuda.empty_cache()
    common.finish(summary(results), arguments.json)


def summary(results: dict[str, dict[str, float]]) -> dict[str, Any]:
    """Ratios of FP8 to BF16 for every size that has both; `ratio` is end to end at the largest."""
    ratios: dict[str, dict[str, float]] = {}
    for size in SIZES:
        bf16, fp8 = (results.get(f"speed {size} {p}") for p in ("bf16", "fp8"))
        if bf16 and fp8:
            ratios[size] = {
                "writing": fp8["written_per_second"] / bf16["written_per_second"],
                "training": fp8["trained_per_second"] / bf16["trained_per_second"],
                "end_to_end": bf16["end_to_end_seconds"] / fp8["end_to_end_seconds"],
            }
    print(json.dumps(ratios, indent=2), flush=True)
    last = list(ratios.values())[-1]["end_to_end"] if ratios else None
    return {"benchmark": "fp8_gpu", "ratio": last, "ratios": ratios, "results": results, **common.versions("torch")}


if __name__ == "__main__":
    main()
