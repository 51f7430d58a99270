"""How far the log-probs of training are from those of generation, by precision: one FP8 flow against the mixed one.

The divergence is the K3 estimate of KL(as generated || in training) over the model's local completions, each generated
by the node's decoder and read again by its training forward with the same weights. FP8 is emulated exactly.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from lab.benchmarks import command, common
from swarm_node import starters
from swarm_node.extensions.fp8.kernels import REFERENCE, Kernel, reference
from swarm_node.extensions.fp8.linear import swap_linears
from swarm_node.extensions.fp8.quantise import Recipe
from swarm_node.generation.generator import BatchGenerator
from swarm_node.policy import tree, tree_attention
from swarm_node.policy.distribution import SamplingRule, log_probs_of
from swarm_node.policy.llama import llama_decoder
from swarm_node.policy.loading import load_policy
from swarm_node.policy.policy import Policy
from swarm_node.policy.rows import Row
from swarm_node.rollouts.groups import GeneratedGroup
from swarm_node.settings import GenerationConfig, ModelConfig
from swarm_node.training.totals import Mismatch

FLOWS: Mapping[str, str] = {
    "bf16": "BF16",
    "fp8": "FP8, one flow",
    "published": "the same, scales not rounded to powers of two",
    "fp8_rollout": "FP8 generated, BF16 trained",
}
DEMAND = 7.0
UNSEEN = 1e-12  # a divergence that float32 log-probs cannot distinguish from 0
STARTER = "starter rare_large"
SPREADS = {"6 layers": 0.02, "6 layers, weights 2.5 times as large": 0.05}  # standard deviation of the weights
LARGER_UP_TO = 256  # tokens: long enough to see, and half the time


def untrained(spread: float) -> Any:
    """Six layers, width 256. The larger its weights, the more a difference in one layer becomes in the next."""
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=98,
        hidden_size=256,
        num_hidden_layers=6,
        intermediate_size=768,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=4096,
        tie_word_embeddings=True,
        initializer_range=spread,
    )
    made = Qwen2ForCausalLM(config)
    made.generation_config.eos_token_id = 98  # never generated, so that every completion has full length
    return made


def policy(model: str, flow: str) -> Policy:
    if model == STARTER:
        config = ModelConfig(name=str(starters.folder("rare_large")), device="cpu", autocast="bfloat16")
        made = load_policy(config)
    else:
        made = Policy(untrained(SPREADS[model]), common.tokenizer(), torch.device("cpu"), torch.bfloat16)
    if flow != "bf16":
        kernel = Kernel("reference, published scales", Recipe(powers=False), reference)
        made.precision = swap_linears(made.model, kernel if flow == "published" else REFERENCE, flow != "fp8_rollout")
    return made


@torch.no_grad()
def mismatch(made: Policy, lengths: Sequence[int], groups: int) -> dict[int, Mismatch]:
    """Over `groups` groups of 8 completions: for each length, of their first tokens up to that many."""
    generator = BatchGenerator(made, GenerationConfig(max_completion_length=max(lengths)))
    found = dict.fromkeys(lengths, Mismatch())
    for number, text in enumerate(common.prompts([40] * groups)):
        (generated,) = generator.generate([text], common.GROUP_SIZE, f"fp8/{number}")
        assert isinstance(generated, GeneratedGroup)
        row = Row(made.encode_prompt(text), [list(tokens.ids) for tokens in generated.tokens])
        batch = tree.build([row], made.device)
        trained = log_probs_of(made.logits(batch), batch.target, SamplingRule())
        parts = torch.split(trained, [len(tokens.ids) for tokens in generated.tokens])
        for tokens, of_text in zip(generated.tokens, parts, strict=True):
            known = torch.tensor(tokens.log_probs)
            for length in lengths:
                found[length] = found[length].plus(known[:length], of_text[:length])
    return found


def measure(model: str, lengths: Sequence[int], groups: int) -> dict[str, Any]:
    """Results by name, one for each length."""
    found = {flow: mismatch(policy(model, flow), lengths, groups) for flow in FLOWS}
    decoder = BatchGenerator(policy(model, "fp8"), GenerationConfig()).decoder_name
    results = {}
    for length in lengths:
        sides = {
            flow: {"kl": m.kl, "mean": m.mean, "max": m.largest, "tokens": m.tokens}
            for flow, m in ((flow, by_length[length]) for flow, by_length in found.items())
        }
        ratio = sides["fp8_rollout"]["kl"] / max(UNSEEN, sides["fp8"]["kl"])
        results[f"{model}, {length} tokens"] = {"sides": sides, "decoder": decoder, "ratio": ratio}
        print(f"{model}, {length} tokens: mixed over unified {ratio:.1f}", flush=True)
    return results


def as_cuda(device: torch.device, products: torch.dtype) -> torch.dtype:
    """In place of `attention_dtype`."""
    return products


def main() -> None:
    parser = command.parser("lab.studies.fp8", __doc__)
    command.add_quick(parser)
    parser.add_argument("--lengths", nargs="+", type=int, help="completion lengths of the untrained model, tokens")
    parser.add_argument("--attend-as-cuda", action="store_true", help="training attends in bfloat16, as it does there")
    arguments = parser.parse_args()
    common.settle()
    if arguments.attend_as_cuda:
        for module in (llama_decoder, tree_attention):
            setattr(module, tree_attention.attention_dtype.__name__, as_cuda)
    lengths = arguments.lengths or ([16] if arguments.quick else [64, 256, 1024])
    groups = max(1, 256 // max(lengths))
    usual, larger = SPREADS
    results = measure(usual, lengths, groups)
    results |= measure(larger, [length for length in lengths if length <= LARGER_UP_TO], groups)
    results |= measure(STARTER, [16], 2 if arguments.quick else 16)
    lines = [
        [name, FLOWS[flow], f"{side['kl']:.1e}", f"{side['mean']:.1e}", f"{side['max']:.1e}"]
        for name, result in results.items()
        for flow, side in result["sides"].items()
    ]
    command.show(["", "flow", "KL", "mean", "max"], lines)
    worst = min(results.values(), key=lambda result: float(result["ratio"]))
    result = {
        "ratio": worst["ratio"],
        "ours": {"name": FLOWS["fp8"], **worst["sides"]["fp8"]},
        "theirs": {"name": FLOWS["fp8_rollout"], **worst["sides"]["fp8_rollout"]},
        "results": results,
        "demand": DEMAND,
        "settings": command.versions("torch", "transformers"),
    }
    command.finish(arguments, result)


if __name__ == "__main__":
    main()
