"""What benchmarks of models have in common: timing two sides in turn, the models and prompts.

Sides are compared by CPU time of one thread, so that other work on the machine disturbs little.
They run in turn (A B A B), so that a disturbance affects all sides. Nothing here knows which side
is ours.
"""

import argparse
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    AutoModelForCausalLM,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
)
from transformers.utils import logging

from lab.benchmarks import command
from lab.benchmarks.shapes import shapes
from protocol.messages import PeerId, Question, Round
from swarm_node.policy.device import keep_freed
from swarm_node.rollouts.groups import Completions, Group

GROUP_SIZE = 8
RATE = 1e-6  # learning rate


@dataclass(frozen=True, slots=True)
class Workload:
    """The amount of work. Prompt lengths in tokens; every completion has exactly `new_tokens`."""

    sizes: tuple[str, ...]
    prompt_lengths: tuple[int, ...]
    new_tokens: int
    repetitions: int

    @property
    def tokens(self) -> int:
        return len(self.prompt_lengths) * GROUP_SIZE * self.new_tokens


FULL = Workload(("1M", "10M"), (60, 68, 78, 88, 96, 104, 114, 124, 132), 64, 5)  # mean 96
QUICK = Workload(("tiny",), (10, 14, 18), 8, 1)
FEW = Workload((), (60, 132), 16, 1)  # for real shapes on a CPU
ON_A_CARD = Workload((), FULL.prompt_lengths, 256, 3)
REAL = {
    "SmolLM2-135M": "HuggingFaceTB/SmolLM2-135M-Instruct",
    "Qwen2.5-0.5B": "Qwen/Qwen2.5-0.5B-Instruct",
    "Qwen3-0.6B": "Qwen/Qwen3-0.6B",
    "Llama-3.2-1B": "meta-llama/Llama-3.2-1B-Instruct",
}

# hidden, layers, feed-forward, heads, key-value heads
_SHAPES = {"tiny": (32, 2, 64, 2, 1), "1M": (128, 4, 512, 4, 2), "10M": (384, 6, 1024, 6, 2)}
_SPECIALS = ["<pad>", "<bos>", "<unk>"]
_CHARACTERS = [chr(code) for code in range(32, 127)] + ["\n"]
_QUESTION = Question(
    environment="lab",
    version="1",
    dataset="text",
    config_id="any",
    digest="A" * 11,
    seed=0,
    index=0,
)
_PLANE_1 = 0x10000  # tokens that prompts lack get characters from here on
_VOCABULARY = {token: number for number, token in enumerate([*_SPECIALS, *_CHARACTERS])}


def tokenizer(size: str = "") -> Any:
    """One token per character. `<eos>` gets the first id beyond the logits of the model of this
    size: it can never be sampled, so all completions have full length on both sides, and neither
    side loses time to a rule against it.
    """
    never = shapes()[REAL[size]].vocab_size if size in REAL else len(_VOCABULARY)
    # So every id decodes to text
    rest = {chr(_PLANE_1 + token): token for token in range(len(_VOCABULARY), never)}
    core = Tokenizer(models.WordLevel({**_VOCABULARY, **rest, "<eos>": never}, unk_token="<unk>"))
    core.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    core.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        pad_token="<pad>",
        bos_token="<bos>",
        unk_token="<unk>",
        eos_token="<eos>",
        padding_side="left",
        model_max_length=1024,
    )


def model(size: str, layers: int = 0) -> Any:
    """An untrained Qwen2 of this size, or an untrained model with the real shape of this name; the
    same weights at each call. `layers`: the number of blocks of a named shape, 0 for all.
    """
    if config := shapes().get(REAL.get(size, size)):
        torch.manual_seed(0)
        config.num_hidden_layers = layers or config.num_hidden_layers
        if layers and getattr(config, "layer_types", None):
            config.layer_types = config.layer_types[:layers]
        return _endless(
            AutoModelForCausalLM.from_config(config, dtype=torch.float32), config.vocab_size
        )
    hidden, layers, feed_forward, heads, kv_heads = _SHAPES[size]
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=len(_VOCABULARY),
        hidden_size=hidden,
        num_hidden_layers=layers,
        intermediate_size=feed_forward,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        max_position_embeddings=1024,
        tie_word_embeddings=True,
    )
    return _endless(Qwen2ForCausalLM(config), len(_VOCABULARY))


def _endless(made: Any, never: int) -> Any:
    """The model with the special ids of `tokenizer`; `never`, the id of `<eos>`, is never
    sampled.
    """
    special = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": never}
    for name, value in special.items():
        setattr(made.config, name, value)
        setattr(made.generation_config, name, value)
    return made


def prompts(lengths: Sequence[int]) -> list[str]:
    """Different texts with these numbers of characters. Texts of one length share their first three
    quarters.
    """
    line = (
        "What is the sum of 17 and 25, and which numbers between them are prime? Think, then "
        "answer with digits. "
    )
    text = line * (max(lengths) // len(line) + 1)
    if len(set(lengths)) > 1:
        return [(f"({number}) " + text)[:length] for number, length in enumerate(lengths)]
    shared = text[: lengths[0] * 3 // 4]
    return [(f"{shared}({number}) " + text)[:length] for number, length in enumerate(lengths)]


def rewards(texts: Sequence[str]) -> list[float]:
    """Rewards that differ within a group, whatever its texts are, so that no group is skipped."""
    return [number % 7 / 7 for number in range(len(texts))]


def scored(text: str, made: Any) -> Group:
    assert isinstance(made, Completions)
    group = Group(PeerId("benchmark"), Round(0), _QUESTION, made.samples, text)
    return group.scored(rewards([episode.text for episode in group.episodes]))


def trl_trainer(
    made: Any, words: Any, load: Workload, folder: str, turns: Any, rows: int = 0, **more: Any
) -> Any:
    """TRL's GRPOTrainer for this model, tokenizer and work. It saves, logs and shows nothing.
    `rows`: completions of a micro-batch, 0 for all; `more`: further fields of its GRPOConfig.
    """
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    rows = rows or len(load.prompt_lengths) * GROUP_SIZE
    quiet = {"report_to": [], "save_strategy": "no", "logging_strategy": "no", "disable_tqdm": True}
    arguments = GRPOConfig(
        output_dir=folder,
        max_steps=load.repetitions + 1,
        per_device_train_batch_size=rows,
        gradient_accumulation_steps=len(load.prompt_lengths) * GROUP_SIZE // rows,
        num_generations=GROUP_SIZE,
        max_completion_length=load.new_tokens,
        learning_rate=RATE,
        **quiet,
        **more,
    )
    return GRPOTrainer(
        model=made,
        reward_funcs=lambda completions, **_: rewards(completions),
        args=arguments,
        train_dataset=Dataset.from_dict({"prompt": prompts(load.prompt_lengths)}),
        processing_class=words,
        callbacks=[turns],
    )


def settle() -> None:
    """Limits torch to one thread, silences transformers except for errors, and keeps freed memory,
    as a node does.
    """
    torch.set_num_threads(1)
    keep_freed(plenty=True)
    logging.set_verbosity_error()
    logging.disable_progress_bar()


def cpu_seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


@dataclass(frozen=True, slots=True)
class Spread:
    """CPU seconds of one side over its repetitions."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        return median(self.seconds)

    def as_json(self, tokens: int) -> dict[str, Any]:
        return {
            "cpu_seconds": {
                "median": self.median,
                "min": min(self.seconds),
                "max": max(self.seconds),
            },
            "tokens_per_cpu_second": tokens / self.median,
            "repetitions": len(self.seconds),
        }


def gpu_seconds(work: Callable[[], object]) -> float:
    """Seconds of the wall clock until the device has done the work."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    work()
    torch.cuda.synchronize()
    return time.perf_counter() - start


def in_turn(
    sides: Mapping[str, Callable[[], object]],
    repetitions: int,
    label: str,
    seconds_of: Callable[[Callable[[], object]], float] = cpu_seconds,
    first: Iterable[Callable[[], object]] | None = None,
) -> dict[str, Spread]:
    """Run `first`, or every side once, unmeasured; then all sides in turn, `repetitions` times."""
    for work in first or sides.values():
        work()
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for repetition in range(repetitions):
        for name, work in sides.items():
            seconds[name].append(seconds_of(work))
        progress(
            label, repetition, repetitions, {name: taken[-1] for name, taken in seconds.items()}
        )
    return {name: Spread(tuple(taken)) for name, taken in seconds.items()}


def progress(
    label: str,
    repetition: int,
    repetitions: int,
    latest: Mapping[str, float],
    unit: str = "CPU s",
) -> None:
    taken = ", ".join(f"{name} {seconds:.2f}" for name, seconds in latest.items())
    print(f"{label} {repetition + 1}/{repetitions}, {unit}: {taken}", flush=True)


def compared(
    spreads: Mapping[str, Spread], reference: str, tokens: int
) -> dict[str, dict[str, Any]]:
    """Each side with its speed relative to the reference: ratio of medians, and range over the
    repetitions.
    """
    base = spreads[reference]
    sides: dict[str, dict[str, Any]] = {}
    for name, spread in spreads.items():
        pairs = [theirs / ours for theirs, ours in zip(base.seconds, spread.seconds, strict=True)]
        ratio = {"median": base.median / spread.median, "min": min(pairs), "max": max(pairs)}
        sides[name] = {**spread.as_json(tokens), "ratio": ratio}
    return sides


def side_lines(size: str, sides: Mapping[str, Mapping[str, Any]]) -> list[list[str]]:
    """Table lines for `SIDE_HEADER`."""
    return [
        [
            f"{size} {name}",
            f"{side['cpu_seconds']['median']:.2f}",
            f"{side['tokens_per_cpu_second']:.0f}",
            f"{side['ratio']['median']:.2f}x",
            f"{side['ratio']['min']:.2f}-{side['ratio']['max']:.2f}",
        ]
        for name, side in sides.items()
    ]


SIDE_HEADER = ["", "CPU s", "tokens/CPU s", "ratio", "range"]


def parser(module: str, doc: str | None, *sizes: str) -> argparse.ArgumentParser:
    """The argument parser of a benchmark that measures sides in turn. `sizes`: the model sizes to
    choose from.
    """
    made = command.parser(module, doc)
    command.add_quick(made)
    made.add_argument("--repetitions", type=int, help="measured repetitions of each side")
    made.add_argument(
        "--prompt", type=int, help="tokens of every prompt, of which three quarters are shared"
    )
    made.add_argument("--new", type=int, help="tokens of every completion")
    if sizes:
        choices = [*sizes, *REAL]
        made.add_argument(
            "--sizes",
            nargs="+",
            choices=choices,
            help="model sizes, parameters, or shapes of real models",
        )
    return made


def question(now: Round, index: int) -> Question:
    """A question of no environment that ships."""
    return _QUESTION.model_copy(update={"seed": int(now), "index": index})


def workload(arguments: argparse.Namespace) -> Workload:
    """The workload that the command line names."""
    sizes = tuple(arguments.sizes or ())
    real = bool(set(sizes) & REAL.keys())
    base = (
        ON_A_CARD
        if getattr(arguments, "gpu", False)
        else QUICK
        if arguments.quick
        else FEW
        if real
        else FULL
    )
    sizes = sizes or base.sizes or tuple(REAL)[:2]
    lengths = (
        (arguments.prompt,) * len(base.prompt_lengths) if arguments.prompt else base.prompt_lengths
    )
    return Workload(
        sizes, lengths, arguments.new or base.new_tokens, arguments.repetitions or base.repetitions
    )


def products(size: str, load: Workload) -> float:
    """FLOPs of one product of each weight with each token of this load; a prefix that prompts share
    counts once.
    """
    texts = prompts(load.prompt_lengths)
    tokens = load.tokens + len({text[:end] for text in texts for end in range(1, len(text) + 1)})
    return 2.0 * tokens * sum(int(each.numel()) for each in model(size).parameters())


def limits(dtype: torch.dtype = torch.float32) -> dict[str, float]:
    """What one thread can do here: FLOP/s of a plain product in `dtype`, and bytes/s read and
    written by a copy.
    """
    x, large = torch.randn(1024, 1024, dtype=dtype), torch.empty(2**26)
    product, copied = (
        Spread(tuple(cpu_seconds(work) for _ in range(9))) for work in (lambda: x @ x, large.clone)
    )
    return {"flops": 2 * 1024**3 / product.median, "bytes": 2 * 4 * 2**26 / copied.median}


def settings(load: Workload) -> dict[str, Any]:
    return {
        "sizes": load.sizes,
        "prompts": len(load.prompt_lengths),
        "mean_prompt_tokens": sum(load.prompt_lengths) / len(load.prompt_lengths),
        "completions_per_prompt": GROUP_SIZE,
        "new_tokens": load.new_tokens,
        "limits": limits(),
        **command.versions("torch", "transformers"),
    }
