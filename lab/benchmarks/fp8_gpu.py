"""FP8 on a CUDA device in one call of three minutes: products, generation, training, mismatch by
length, memory.

Architectures of 0.5 B, 1.5 B and 7 B with random weights; mismatch on four layers of the first,
since each of 16,384 tokens takes a step of decoding. Prints results as it goes. Leaves out what
does not fit into memory or time. `--quick` runs all of it on tiny sizes, on a CPU too, where FP8 is
emulated. Packages needed: torch, transformers, pydantic. Published by Jet-RL (arXiv 2601.14243)
against BF16: generation up to 1.33x, training up to 1.41x, end to end 1.16x.
"""

import gc
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from lab.benchmarks import command, common
from swarm_node.generation.generator import BatchGenerator
from swarm_node.policy.batch import build_tree, unrecorded
from swarm_node.policy.fp8 import kernels
from swarm_node.policy.fp8.linear import Fp8Linear, swap_linears
from swarm_node.policy.fp8.quantise import Quantised, quantise
from swarm_node.policy.log_probs import log_probs_of
from swarm_node.policy.policy import Policy
from swarm_node.rollouts.groups import Completions
from swarm_node.settings import GenerationConfig
from swarm_node.training.objectives import Mismatch

BUDGET = 180.0  # seconds; work that would take longer is skipped
GIBIBYTE = 2**30
PARTS = ("writing", "training", "end_to_end")
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
Shape = tuple[int, int, int, int, int]  # hidden, layers, feed-forward, heads, key-value heads
Figures = dict[str, float]


@dataclass(frozen=True, slots=True)
class Plan:
    """The amount of work. Seconds are generous guesses for one H200."""

    sizes: Mapping[str, Shape]
    trained_tokens: int
    prompts: int  # of common.GROUP_SIZE completions each
    written_tokens: int  # of a completion
    long: Shape
    lengths: tuple[int, ...]
    repetitions: int
    speed_seconds: float
    mismatch_seconds: float


FULL = Plan(
    {
        "0.5B": (896, 24, 4864, 14, 2),
        "1.5B": (1536, 28, 8960, 12, 2),
        "7B": (3584, 28, 18944, 28, 4),
    },
    trained_tokens=8192,
    prompts=8,
    written_tokens=256,
    long=(896, 4, 4864, 14, 2),
    lengths=(1024, 4096, 16384),
    repetitions=20,
    speed_seconds=20.0,
    mismatch_seconds=30.0,
)
QUICK = Plan({"tiny": (160, 2, 288, 4, 2)}, 256, 2, 4, (160, 2, 288, 4, 2), (4, 20), 1, 0.0, 0.0)


def seconds(work: Callable[[], object], repetitions: int) -> float:
    """The shortest wall time of a call over repetitions, after one call that is not measured."""
    taken = []
    for _ in range(repetitions + 1):
        wait()
        start = time.perf_counter()
        work()
        wait()
        taken.append(time.perf_counter() - start)
    return min(taken[1:])


def wait() -> None:
    if DEVICE.type == "cuda":
        torch.cuda.synchronize()


def forget_peak() -> None:
    gc.collect()
    if DEVICE.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def peak() -> float:
    """GiB allocated at most since `forget_peak`; 0 on a CPU."""
    return torch.cuda.max_memory_allocated() / GIBIBYTE if DEVICE.type == "cuda" else 0.0


def policy(
    shape: Shape, precision: str, longest: int, weights: torch.dtype = torch.bfloat16
) -> Policy:
    """`longest`: tokens of a row, prompt included. Products that are not FP8 are bfloat16, for any
    type of weights.
    """
    hidden, layers, feed_forward, heads, kv_heads = shape
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
    with DEVICE:
        model = Qwen2ForCausalLM(config).to(weights)
    model.generation_config.eos_token_id = config.vocab_size  # never generated
    made = Policy(
        model, common.tokenizer(), DEVICE, None if weights == torch.bfloat16 else torch.bfloat16
    )
    if precision != "bf16":
        made.precision = swap_linears(model, kernels.choose(DEVICE), precision == "fp8")
    return made


def products(plan: Plan, size: str) -> Figures:
    """Milliseconds of the widest layer's products in BF16 and in FP8, and of quantising their
    operands.

    `dx` and `dw` are the products for the gradients; `along_tokens` is the time to quantise an
    operand of `dw`.
    """
    hidden, _, feed_forward, _, _ = plan.sizes[size]
    shapes = (
        (plan.trained_tokens, hidden),
        (feed_forward, hidden),
        (plan.trained_tokens, feed_forward),
    )
    x, weight, dy = (torch.randn(shape, device=DEVICE, dtype=torch.bfloat16) for shape in shapes)
    works: dict[str, Callable[[], object]] = {"bf16": lambda: x @ weight.t()}
    kernel = kernels.choose(DEVICE)
    name, how = kernel.product.__name__, kernel.quantise.__name__
    forwards, backwards = weights_of(weight, kernel)
    pairs = {
        "": (kernel.quantise(x), forwards),
        "_dx": (kernel.quantise(dy), backwards),
        "_dw": (kernel.quantise(dy.t()), kernel.quantise(x.t())),
    }
    works |= {
        f"{name}{what}": partial(kernel.product, *pair, torch.bfloat16)
        for what, pair in pairs.items()
    }
    works |= {
        how: partial(kernel.quantise, x),
        f"{how}_along_tokens": partial(kernel.quantise, x.t()),
    }
    if DEVICE.type == "cuda":
        works["quantise_compiled"] = partial(torch.compile(quantise), x)
    return {f"{what}_ms": 1e3 * seconds(work, plan.repetitions) for what, work in works.items()}


def weights_of(weight: torch.Tensor, kernel: kernels.Kernel) -> tuple[Quantised, Quantised]:
    """The weight as a layer quantises it: for the forward product, and for the gradient of the
    layer's input.
    """
    layer = torch.nn.Linear(weight.shape[1], weight.shape[0], bias=False, device="meta")
    layer.weight = torch.nn.Parameter(weight)
    quantised = Fp8Linear(layer, kernel, active=True).quantised()
    return quantised.forwards, quantised.backwards


def one_step(made: Policy, tokens: int) -> Callable[[], None]:
    """Forward and backward over one packed row: an eighth of it is the prompt, the rest completions
    of half that.
    """
    prompt, completion = tokens // 8, tokens // 16
    # All different: a tree holds equal ones once
    completions = [[6 + k, *[6] * (completion - 1)] for k in range(14)]
    batch = build_tree([unrecorded([5] * prompt, completions)], DEVICE)

    def work() -> None:
        made.model.zero_grad(set_to_none=True)
        loss = log_probs_of(made.logits(batch), batch.target_T, 1.0).mean()
        loss.backward()  # type: ignore[no-untyped-call]

    return work


def speeds(plan: Plan, size: str, precision: str) -> Figures:
    """Tokens per second of generation and of training, and peak memory."""
    made = policy(plan.sizes[size], precision, plan.trained_tokens)
    forget_peak()
    trained = seconds(one_step(made, plan.trained_tokens), 2)
    made.model.zero_grad(set_to_none=True)
    training_memory = peak()
    forget_peak()
    generator = BatchGenerator(made, GenerationConfig(max_completion_length=plan.written_tokens))
    texts = common.prompts([100] * plan.prompts)
    generated = seconds(lambda: generator.generate(texts, common.GROUP_SIZE, "fp8"), 1)
    print(
        f"  {generator.decoder_name}, {made.packing and made.packing.value}, {made.arithmetic}",
        flush=True,
    )
    return {
        "written_per_second": plan.prompts * common.GROUP_SIZE * plan.written_tokens / generated,
        "trained_per_second": plan.trained_tokens / trained,
        "end_to_end_seconds": generated + trained,
        "training_gib": training_memory,
        "writing_gib": peak(),
    }


@torch.no_grad()
def mismatch(plan: Plan, precision: str) -> Figures:
    """K3 divergence, mean and largest difference of log-probs over the first tokens of two
    completions, by length.

    Weights are float32, a node's default.
    """
    made = policy(plan.long, precision, max(plan.lengths) + 128, torch.float32)
    generator = BatchGenerator(made, GenerationConfig(max_completion_length=max(plan.lengths)))
    (text,) = common.prompts([100])
    (generated,) = generator.generate([text], 2, "fp8")
    assert isinstance(generated, Completions)
    found = dict.fromkeys(plan.lengths, Mismatch())
    for tokens in (sample.tokens for sample in generated.samples):
        assert tokens is not None
        batch = build_tree([unrecorded(made.encode_prompt(text), [list(tokens.ids)])], DEVICE)
        trained = log_probs_of(made.logits(batch), batch.target_T, 1.0).cpu()
        known = torch.tensor(tokens.log_probs)
        found = {
            length: sums.plus(known[:length], trained[:length]) for length, sums in found.items()
        }
    return {
        f"{what}_{length}": value
        for length, sums in found.items()
        for what, value in (("kl", sums.kl), ("mean", sums.mean), ("max", sums.largest))
    }


def todo(plan: Plan) -> list[tuple[str, float, Callable[[], Figures]]]:
    """Name, guessed seconds, work; the most telling first."""
    sizes = list(plan.sizes)
    flows = ("bf16", "fp8", "fp8_rollout")
    return [
        *((f"products {size}", 15.0, partial(products, plan, size)) for size in sizes),
        *(
            (
                f"speed {size} {precision}",
                plan.speed_seconds,
                partial(speeds, plan, size, precision),
            )
            for size in sizes
            for precision in flows[:2]
        ),
        *(
            (f"mismatch {flow}", plan.mismatch_seconds, partial(mismatch, plan, flow))
            for flow in flows
        ),
    ]


def main() -> None:
    parser = command.parser("lab.benchmarks.fp8_gpu", __doc__)
    command.add_quick(parser)
    parser.add_argument("--size", choices=FULL.sizes, help="the speed of this size alone")
    arguments = parser.parse_args()
    if DEVICE.type != "cuda" and not arguments.quick:
        parser.error("needs a CUDA device, and there is none; --quick tries the code on a CPU")
    common.settle()
    plan = QUICK if arguments.quick else FULL
    started, results = time.perf_counter(), {}
    name = torch.cuda.get_device_name() if DEVICE.type == "cuda" else "CPU"
    print(f"{name}: {kernels.choose(DEVICE).name}", flush=True)
    wanted = [f"speed {arguments.size} {way}" for way in ("bf16", "fp8")]
    for what, guessed, work in todo(plan):
        if arguments.size and not arguments.quick and what not in wanted:
            continue
        if time.perf_counter() - started + guessed > BUDGET:
            print(f"{what}: left out, no time for it", flush=True)
            continue
        try:
            results[what] = work()
            print(
                f"{what}: " + ", ".join(f"{k} {v:.4g}" for k, v in results[what].items()),
                flush=True,
            )
        except torch.OutOfMemoryError:
            print(f"{what}: does not fit into memory", flush=True)
        forget_peak()
    command.finish(arguments, summary(plan, results))


def summary(plan: Plan, results: dict[str, Figures]) -> dict[str, Any]:
    """Ratios of FP8 to BF16 for every size that has both; `ratio` is end to end at the largest."""
    ratios: dict[str, Figures] = {}
    for size in plan.sizes:
        bf16, fp8 = (results.get(f"speed {size} {p}") for p in ("bf16", "fp8"))
        if bf16 and fp8:
            writing = fp8["written_per_second"] / bf16["written_per_second"]
            training = fp8["trained_per_second"] / bf16["trained_per_second"]
            end_to_end = bf16["end_to_end_seconds"] / fp8["end_to_end_seconds"]
            ratios[size] = dict(zip(PARTS, (writing, training, end_to_end), strict=True))
    lines = [[size, *(f"{found[what]:.2f}x" for what in PARTS)] for size, found in ratios.items()]
    command.show(["FP8 over BF16", *PARTS], lines)
    mismatches = [results.get(f"mismatch {flow}", {}) for flow in ("fp8_rollout", "fp8")]
    longest = f"kl_{max(plan.lengths)}"
    if all(longest in found for found in mismatches):
        mixed, unified = (found[longest] for found in mismatches)
        print(
            f"mixed over unified divergence at {max(plan.lengths)} tokens: "
            f"{mixed / max(1e-12, unified):.1f}"
        )
    last = list(ratios.values())[-1]["end_to_end"] if ratios else None
    return {"ratio": last, "ratios": ratios, "results": results, **command.versions("torch")}


if __name__ == "__main__":
    main()
