"""The model, the numbers it computes in, and how it generates completions."""

import re
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field

from swarm_node.settings.sections import (
    Count,
    Grants,
    Positive,
    Section,
    Text,
    WithCommas,
    Words,
    json_object,
)

NO_TEMPLATE = "none"


def _escapes(text: str) -> str:
    """Makes a new line of a backslash and an n, which is what a shell passes; in the same way a
    tab.
    """
    return text.replace("\\n", "\n").replace("\\t", "\t")


def _arguments(text: str) -> str:
    return text if text == NO_TEMPLATE else json_object(text)


def _of_url(name: str) -> str:
    """OWNER/NAME of the address of a model on the hub; other names as they are."""
    address = re.fullmatch(r"(?:https?://)?(?:www\.)?(?:huggingface\.co|hf\.co)/(.*)", name.strip())
    if address is None:
        return name
    owner_and_name = re.fullmatch(r"([\w.-]+/[\w.-]+)(?:/tree/main)?/?(?:[?#].*)?", address[1])
    if owner_and_name is None or owner_and_name[1].startswith(("datasets/", "spaces/")):
        raise ValueError(
            "should be OWNER/NAME of a hub model; another branch or commit goes to model.revision"
        )
    return owner_and_name[1]


def _devices(text: str) -> str:
    names = "".join(text.split())
    if names != "auto" and not re.fullmatch(r"[1-9]\d{0,2}|[a-z]+(:\d+)?(,[a-z]+(:\d+)?)*", names):
        raise ValueError("must be auto, a number from 1 on, or names such as cuda:0,cuda:1")
    return names


ModelName = Annotated[str, AfterValidator(_of_url)]
Stops = Annotated[
    tuple[Annotated[str, Field(min_length=1), AfterValidator(_escapes), Words()], ...],
    WithCommas(),
]


class ModelConfig(Section):
    """The model, where it runs, and the type of its numbers."""

    from_home: ClassVar[frozenset[str]] = frozenset({"template_arguments"})
    name: Annotated[ModelName, Grants("a model, by a folder or a name")] = "rare"
    """The model to train: smollm2-135m (SmolLM2-135M-Instruct, which is downloaded once) or
    smollm2-135m-q4 (from an installed package; see docs/how-to/offline.md), a starter (dense, rare,
    very_rare, rarest, rare_small, rare_large, puzzler), a folder, or a name on the Hugging Face
    hub.
    """
    revision: Annotated[str, Grants("a model")] = ""
    """Commit, tag or branch of a model on the hub. Empty: its main branch. Checkpoints and model
    cards record the commit that was loaded, and a resumed run loads that commit.
    """
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    """Type of the weights. auto: bfloat16 for LoRA on a GPU that supports it, otherwise float32. On
    such a GPU matrix products use bfloat16 in any case, unless you set float32 here.
    """
    device: Text = "auto"
    """Where the model runs: cpu, cuda, cuda:1 or mps. auto: CUDA if there is a GPU for it,
    otherwise the CPU.
    """
    devices: Annotated[str, AfterValidator(_devices), Words()] = "auto"
    """On how many devices a node computes side by side, with one model: each of them generates a
    part of the completions and computes a part of the gradients. auto: all GPUs of one kind, if
    `model.device` is auto or cuda, otherwise one device. You can also give a number,
    such as 2, or names, such as cuda:0,cuda:1 or cpu,cpu. 1: one device. `model eval` always
    computes on one.
    """
    quantization: Literal["none", "nf4"] = "none"
    """Quantization of the frozen base model under LoRA. nf4: 4 bits a weight (QLoRA), which needs a
    quarter of the memory for these weights, takes more time, and needs the extra `memory`
    (bitsandbytes).
    """
    template_arguments: Annotated[str, AfterValidator(_arguments), Words()] = ""
    """Arguments for the model's chat template, as a JSON object, such as '{"enable_thinking":
    false}'. none: use no template, so that the model continues the prompt as plain text. That suits
    prompts with few-shot examples.
    """
    lora_rank: Count = 0
    """Rank of the LoRA adapters (peft) that are trained instead of the weights. They are added to
    all linear layers except the output head, with their output multiplied by 2. 0: train all
    weights.
    """


class Fp8Config(Section):
    """FP8 in all linear layers except the output head, with the fastest kernel that works here. A
    CPU emulates it.
    """

    precision: Literal["bf16", "fp8", "fp8_rollout"] = "bf16"
    """bf16: no FP8, so model.dtype decides. fp8: block-scaled FP8 for generation and training
    (Jet-RL). fp8_rollout: FP8 for generation only, for comparison; use it with training.objective
    truncated.
    """


class GenerationConfig(Section):
    """How completions are generated."""

    from_home: ClassVar[frozenset[str]] = frozenset({"max_completion_length", "stop"})
    num_generations: Annotated[int, Field(ge=2, le=64)] = 8
    """Number of completions per prompt: the GRPO group size G."""
    max_completion_length: Positive = 16
    """Tokens after which a completion is cut off."""
    stop: Stops = ()
    """Strings that end a completion; the completion does not include them. \\n and \\t stand for a
    new line and a tab. External completions that ended by themselves are given the first of these
    strings as their end, instead of EOS. Empty: only EOS ends a completion.
    """
    temperature: Annotated[float, Field(gt=0.0)] = 1.0
    """Sampling temperature: the logits are divided by it, and the loss divides them by the same
    value.
    """
    stop_below: Annotated[float, Field(le=0.0)] = 0.0
    """Stop a completion when the exponentially weighted mean of its log-probs falls below this
    value, in nats per token. 0: never. The published recipe for Temporal Clue uses -3.0.
    """
