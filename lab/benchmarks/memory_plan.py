"""What fits on which card, by the memory plan: models x cards x ways to train; and the plan beside
traces.

A trace runs the node's own forward and backward on FakeTensors, which have shapes and no numbers,
and counts the bytes that are alive: what CUDA would hold without its allocator's gaps. `--trace`
compares the plan of a micro-batch of 2,048 tokens, blocks kept or computed again, with traces, and
the plan of generation, with the decoder and its copy of the weights; `--gpu` compares the plan of a
micro-batch with a CUDA device. Attention is torch's fused one.

`--twenty FILE` does the former for twenty models in full, with LoRA, and with LoRA on 4 bits. Each
comparison is a line of JSON that is appended to FILE; those that stand there are not made again.
"""

import copy
import gc
import json
import weakref
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten
from transformers import AttentionInterface, AutoModelForCausalLM

from lab.benchmarks import command, common
from lab.benchmarks.shapes import more_shapes, shapes
from swarm_node.generation.block import Drawing, Slots, block
from swarm_node.generation.pacing import Astray
from swarm_node.policy import log_probs as of_log_probs
from swarm_node.policy import plan as plans
from swarm_node.policy import tree_attention
from swarm_node.policy.batch import build_rows, unrecorded
from swarm_node.policy.llama import llama_decoder
from swarm_node.policy.llama.families import is_known
from swarm_node.policy.llama.llama_decoder import DEVICE_BLOCK
from swarm_node.policy.memory_plan import plan_of
from swarm_node.policy.policy import Policy
from swarm_node.settings import (
    GenerationConfig,
    LearningConfig,
    ModelConfig,
    RoundConfig,
    TrainingConfig,
)

CARDS = (8, 12, 16, 24)  # GiB
MODELS = (
    "Qwen/Qwen2.5-0.5B-Instruct",
    "Qwen/Qwen3-0.6B",
    "meta-llama/Llama-3.2-1B-Instruct",
    "Qwen/Qwen2.5-1.5B-Instruct",
    "Qwen/Qwen2.5-3B-Instruct",
)
RANK, TOKENS = 16, 2048
# Of the generation that is traced
QUESTIONS, GROUP, NEW = 8, 8, 256
CPU = torch.device("cpu")
FUSED = "benchmark_fused"  # the name of `_fused` in transformers


def ways() -> dict[str, LearningConfig]:
    """The configuration of every way to train."""
    made = {
        "full": (ModelConfig(), "adamw"),
        "full, 8-bit Adam": (ModelConfig(), "adamw_8bit"),
        "LoRA": (ModelConfig(lora_rank=RANK), "adamw"),
        "QLoRA": (ModelConfig(lora_rank=RANK, quantization="nf4"), "adamw"),
    }
    generation = GenerationConfig(max_completion_length=256)
    return {
        name: LearningConfig(
            model=model,
            round=RoundConfig(questions=8),
            generation=generation,
            training=TrainingConfig.model_validate({"optimizer": optimizer}),
        )
        for name, (model, optimizer) in made.items()
    }


def cell(made: plans.Plan) -> str:
    """Tokens of a micro-batch, if blocks are computed again, if fewer tokens are decoded at a time,
    and GiB in all.
    """
    if not made.fits:
        return f"no ({made.total / plans.GIB:.1f})"
    again = ", again" if made.choice.checkpointing else ""
    fewer = ", fewer" if made.choice.concurrent else ""
    return f"{made.choice.budget}{again}{fewer} ({made.total / plans.GIB:.1f})"


def table() -> list[list[str]]:
    known, lines = shapes(), []
    for name in MODELS:
        for way, config in ways().items():
            cells = [cell(plan_of(config, known[name], card * plans.GIB)) for card in CARDS]
            lines.append([f"{name.rpartition('/')[2].removesuffix('-Instruct')}, {way}", *cells])
    return lines


class Bytes(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the bytes of the tensors that are alive: now, and at the peak."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._alive: dict[int, int] = {}
        self.now = self.peak = 0

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        made = function(*args, **(kwargs or {}))
        for tensor in tree_flatten(made)[0]:
            if isinstance(tensor, Tensor):
                self._count(tensor.untyped_storage())
        return made

    def _count(self, storage: Any) -> None:
        key = storage._cdata
        if key not in self._alive:
            self._alive[key] = storage.nbytes()
            self.now += storage.nbytes()
            self.peak = max(self.peak, self.now)
            weakref.finalize(storage, self._drop, key)

    def forget(self) -> None:
        """Sets the peak to the bytes that are alive now."""
        self.peak = self.now

    def _drop(self, key: int) -> None:
        self.now -= self._alive.pop(key, 0)


class _WrittenOut(torch.autograd.Function):
    """x W^T, of a weight that is written out in full for the product, and again on the way back."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, packed: Tensor, outputs: int) -> Tensor:
        ctx.packed, ctx.outputs = packed, outputs
        return F.linear(x, x.new_empty(outputs, x.shape[-1]))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        of_y = gradients[0]
        inputs = 2 * ctx.packed.numel() // ctx.outputs
        return of_y @ of_y.new_empty(ctx.outputs, inputs), None, None


class Linear4bit(nn.Module):
    """A linear layer in 4 bits as bitsandbytes has it, which has no numbers: that library packs
    numbers on a device alone.
    """

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.in_features, self.out_features = layer.in_features, layer.out_features
        count = layer.weight.numel()
        self.weight = nn.Parameter(torch.empty(count // 2, 1, dtype=torch.uint8), False)
        self.register_buffer("scales", torch.empty(-(-count // 64), dtype=torch.uint8))
        self.register_buffer("of_scales", torch.empty(-(-count // (64 * 256))))
        self.bias = layer.bias

    def forward(self, x: Tensor) -> Tensor:
        kind = x.to(torch.bfloat16)
        made: Tensor = _WrittenOut.apply(kind, self.weight, self.out_features)  # type: ignore[no-untyped-call]
        return (made if self.bias is None else made + self.bias.to(made.dtype)).to(x.dtype)


Linear4bit.__module__ = "bitsandbytes"  # by which the decoder knows such a layer


class Adapted(nn.Module):
    """A linear layer as peft wraps it: adapters in float32 over a frozen base. peft itself cannot
    wrap layers that have no numbers.
    """

    lora_variant: Mapping[str, Any] = {}
    lora_bias: Mapping[str, bool] = {"default": False}
    scaling: Mapping[str, float] = {"default": 2.0}
    active_adapters = ("default",)
    merged = disable_adapters = False

    def __init__(self, base: Any) -> None:
        super().__init__()
        down = nn.Linear(base.in_features, RANK, bias=False, dtype=torch.float32)
        up = nn.Linear(RANK, base.out_features, bias=False, dtype=torch.float32)
        self.base_layer, self.bias = base, base.bias
        self.lora_A, self.lora_B = (nn.ModuleDict({"default": one}) for one in (down, up))

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.base_layer(x)
        if isinstance(self.base_layer, Linear4bit):
            result = result.clone()  # as peft does
        added: Tensor = self.lora_B["default"](self.lora_A["default"](x.float()))
        return (result + 2.0 * added).to(result.dtype)


def _fused(
    _: Any, query: Tensor, key: Tensor, value: Tensor, _mask: Any, scaling: float, **_o: Any
) -> tuple[Tensor, None]:
    with torch.autocast("cpu", enabled=False):
        q, k, v = (x.to(value.dtype) for x in (query, key, value))
        k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], dim=1) for x in (k, v))
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=scaling)
    return seen.transpose(1, 2), None


AttentionInterface.register(FUSED, _fused)


class Ids:
    """Has the attributes of a tokenizer that a policy reads when there is no text."""

    eos_token_id, pad_token_id, chat_template = 7, 0, None


class Card(nullcontext["Card"]):
    """Counts what a CUDA device holds, in the place of `Bytes`."""

    now = property(lambda self: torch.cuda.memory_allocated())
    peak = property(lambda self: torch.cuda.max_memory_allocated())

    def forget(self) -> None:
        torch.cuda.reset_peak_memory_stats()


def traced(
    config: Any,
    *,
    lora: bool,
    again: bool,
    layers: int = 0,
    tokens: int = TOKENS,
    card: bool = False,
    four_bits: bool = False,
) -> tuple[float, float]:
    """Bytes of weights, gradients and a micro-batch at its peak, traced or held on a card; then the
    same sum with the plan's bytes of the micro-batch.
    """
    config, device = copy.deepcopy(config), torch.device("cuda" if card else "cpu")
    config.num_hidden_layers = layers or config.num_hidden_layers
    # One row, no pads
    batch = replace(build_rows([unrecorded([0], [[0] * tokens])], device), mask=None)
    count: Any = Card() if card else Bytes()
    wide: Any = nullcontext() if card else patch.object(of_log_probs, "wide_linear", _wide)
    fake: Any = nullcontext() if card else FakeTensorMode(allow_non_fake_inputs=True)
    with wide, fake, count, device:
        model = AutoModelForCausalLM.from_config(
            config, dtype=torch.bfloat16 if lora else torch.float32
        )
        model.set_attn_implementation(FUSED)
        total = sum(p.numel() for p in model.parameters())
        if lora:
            _adapt(model, four_bits=four_bits)
        policy = Policy(model, Ids(), device, torch.bfloat16, checkpointing=again)
        # Else found by comparing numbers; a trace has none
        policy.__dict__["_head"] = model.lm_head
        for p in model.parameters():
            # As after the first micro-batch
            p.grad = torch.zeros_like(p) if p.requires_grad else None
        gc.collect()
        rest = count.now
        count.forget()
        log_probs, _ = policy.log_probs(batch, 1.0)
        policy.backward(log_probs.sum(), batch)
        trained, peak = sum(p.numel() for p in model.parameters() if p.requires_grad), count.peak
    shape = plans.shape_of(config, total, trained if lora else 0)
    return peak, rest + plans.micro_batch(shape, _how(lora, four_bits), lora, tokens, again)


def _how(lora: bool, four_bits: bool) -> plans.Arithmetic:
    """The types on a card."""
    weight = plans.NF4_BYTES if four_bits else 2 if lora else 4
    return plans.Arithmetic("cuda", weight, 4, 2)


def decoded(
    config: Any, *, lora: bool, layers: int = 0, new: int = NEW, four_bits: bool = False
) -> tuple[float, float]:
    """Bytes of weights and generation at its peak, traced; then the same by the plan. The decoder
    is made, reads prompts of the length that a plan assumes, and takes its last steps with room for
    `new` tokens: as on a card, where no weight is packed and the host reads no number.
    """
    config, count = copy.deepcopy(config), Bytes()
    config.num_hidden_layers = layers or config.num_hidden_layers
    prompts = [[k + 1] * plans.PROMPT for k in range(QUESTIONS)]
    grown = tree_attention.grow(prompts, CPU)  # now: a trace has no numbers to make a tree of
    as_on_a_card = patch.multiple(
        llama_decoder,
        put=_put,
        grow=lambda *_: grown,
        _worth_packing=lambda weight: False,
        shares=lambda device: True,
        wide_linear=_wide,
        BLOCK=DEVICE_BLOCK,
    )
    with FakeTensorMode(allow_non_fake_inputs=True), as_on_a_card, count, CPU, torch.no_grad():
        model = AutoModelForCausalLM.from_config(
            config, dtype=torch.bfloat16 if lora else torch.float32
        )
        total, adapters = sum(p.numel() for p in model.parameters()), 0
        if lora:
            _adapt(model, four_bits=four_bits)
            adapters = sum(p.numel() for p in model.parameters() if p.requires_grad)
        policy = Policy(model, Ids(), CPU, torch.bfloat16)
        gc.collect()
        rest = count.now
        count.forget()
        decoder = llama_decoder.LlamaDecoder(policy, merged=False)
        drawing = Drawing(1.0, torch.tensor([-1]), Astray(0.0))
        uniform = torch.zeros(1, QUESTIONS * GROUP, dtype=torch.float64)
        at = Slots.start(QUESTIONS * GROUP, CPU)
        at, _ = drawing(decoder.prefill(prompts, GROUP, new), uniform[0], at)
        decoder.reserve(new)
        block(decoder, drawing, uniform, at)
    shape = plans.shape_of(config, total, adapters)
    tokens, rows = plans.PROMPT + new, QUESTIONS * GROUP
    planned = plans.generation(shape, _how(lora, four_bits), lora, rows, tokens, GROUP)
    return count.peak, rest + planned


def _put(buffer: Tensor, at: Tensor, new: Tensor) -> None:
    buffer.index_copy_(3, at, new)


def _wide(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """A product in float32 of operands in 16 bits, as a card makes it."""
    product = torch.empty(len(x), len(weight), dtype=torch.float32)
    return product if bias is None else product.add_(bias)


def _adapt(model: Any, *, four_bits: bool = False) -> None:
    model.requires_grad_(False)
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if type(child) is nn.Linear and child is not model.lm_head:
                setattr(module, name, Adapted(Linear4bit(child) if four_bits else child))


def traces(quick: bool, card: bool) -> Mapping[str, tuple[float, float]]:
    """Bytes of weights, gradients and a micro-batch, found (traced or held on a card) and planned,
    by model and way.
    """
    names = MODELS[:1] if quick else MODELS
    return {
        (
            f"{name.rpartition('/')[2]}, {'LoRA' if lora else 'full'}, "
            f"blocks {'again' if again else 'kept'}"
        ): traced(shapes()[name], lora=lora, again=again, layers=2 if quick else 0, card=card)
        for name in names
        for lora in (False, True)
        for again in (True, False)
    }


def decodings(quick: bool) -> Mapping[str, tuple[float, float]]:
    """Bytes of weights and generation, traced and planned, by model and way."""
    known = {name: each for name, each in shapes().items() if is_known(each)}
    names = [*known][:1] if quick else [*known]
    return {
        f"{name.rpartition('/')[2]}, {'LoRA' if lora else 'full'}": decoded(
            known[name], lora=lora, layers=2 if quick else 0
        )
        for name in names
        for lora in (False, True)
    }


# Options of `traced` and `decoded`, by the name of the way to train
WAYS = {
    "full": {"lora": False},
    "LoRA": {"lora": True},
    "nf4": {"lora": True, "four_bits": True},
}
PURPOSES = ("generation", "blocks kept", "blocks again")


def twenty(file: Path, quick: bool) -> dict[tuple[str, str], dict[str, tuple[float, float]]]:
    """Bytes found and planned for each purpose, by model and way. What stands in the file is taken
    from it, and what is missing is traced and appended.
    """
    made: dict[tuple[str, str], dict[str, tuple[float, float]]] = {}
    kept = file.read_text().splitlines() if file.exists() else []
    for line in map(json.loads, kept):
        there = made.setdefault((line["model"], line["way"]), {})
        there[line["purpose"]] = line["found"], line["planned"]
    known = more_shapes()
    for model in [*known][: 1 if quick else None]:
        for way, options in WAYS.items():
            there = made.setdefault((model, way), {})
            for purpose in PURPOSES:
                if purpose in there or (purpose == "generation" and not is_known(known[model])):
                    continue
                pair = _compared(known[model], purpose, options, layers=2 if quick else 0)
                there[purpose] = pair
                row = {"model": model, "way": way, "purpose": purpose}
                with file.open("a") as opened:
                    opened.write(json.dumps(row | {"found": pair[0], "planned": pair[1]}) + "\n")
    return made


def _compared(
    config: Any, purpose: str, options: Mapping[str, bool], layers: int
) -> tuple[float, float]:
    if purpose == "generation":
        return decoded(config, layers=layers, **options)
    return traced(config, again=purpose == "blocks again", layers=layers, **options)


def show_twenty(made: Mapping[tuple[str, str], Mapping[str, tuple[float, float]]]) -> None:
    """A table of what the plan says over what was traced, and which of them are not near 1."""
    lines: list[list[str]] = []
    odd: list[str] = []
    for (model, way), there in made.items():
        ratios = {purpose: planned / found for purpose, (found, planned) in there.items()}
        cells = [f"{ratios[name]:.2f}" if name in ratios else "" for name in PURPOSES]
        lines.append([f"{model.rpartition('/')[2].removesuffix('-Instruct')}, {way}", *cells])
        for purpose, ratio in ratios.items():
            if not 0.9 <= ratio <= 1.1:
                odd.append(f"{model}, {way}, {purpose}: {ratio:.3f}")
    command.show(["the plan over a trace", *PURPOSES], lines)
    count = sum(map(len, made.values()))
    print(f"{count - len(odd)} of {count} are 0.9 to 1.1", *odd, sep="\n")


def main() -> None:
    parser = command.parser("lab.benchmarks.memory_plan", __doc__)
    command.add_quick(parser)
    parser.add_argument("--trace", action="store_true", help="compare with traces")
    parser.add_argument("--twenty", type=Path, metavar="FILE", help="compare twenty models")
    parser.add_argument("--gpu", action="store_true", help="compare with what a CUDA device holds")
    arguments = parser.parse_args()
    if arguments.gpu and not torch.cuda.is_available():
        parser.error("--gpu needs a CUDA device, and there is none")
    common.settle()
    result: dict[str, Any] = {}
    if arguments.twenty:
        found = twenty(arguments.twenty, arguments.quick)
        show_twenty(found)
        for (model, way), purposes in found.items():
            for purpose, (t, p) in purposes.items():
                result[f"{model}, {way}, {purpose}"] = {"found": t, "planned": p}
    elif arguments.trace or arguments.gpu:
        pairs = traces(arguments.quick, arguments.gpu)
        lines = [
            [n, f"{t / plans.GIB:.2f}", f"{p / plans.GIB:.2f}", f"{p / t:.2f}"]
            for n, (t, p) in pairs.items()
        ]
        command.show(
            ["weights, gradients, micro-batch", "found GiB", "planned GiB", "ratio"], lines
        )
        made = decodings(arguments.quick)
        lines = [
            [n, f"{t / plans.GIB:.2f}", f"{p / plans.GIB:.2f}", f"{p / t:.2f}"]
            for n, (t, p) in made.items()
        ]
        command.show(["weights, generation", "traced GiB", "planned GiB", "ratio"], lines)
        result["generation"] = {name: {"found": t, "planned": p} for name, (t, p) in made.items()}
        result["traces"] = {name: {"found": t, "planned": p} for name, (t, p) in pairs.items()}
    else:
        lines = table()
        command.show(
            ["tokens of a micro-batch (GiB in all)", *(f"{card} GB" for card in CARDS)], lines
        )
        result["table"] = lines
    command.finish(arguments, result)


if __name__ == "__main__":
    main()
