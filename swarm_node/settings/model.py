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
    """Makes a new line of a backslash and an n, which is what a shell passes; likewise a tab."""
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


ModelName = Annotated[str, AfterValidator(_of_url)]
Stops = Annotated[
    tuple[Annotated[str, Field(min_length=1), AfterValidator(_escapes), Words()], ...],
    WithCommas(),
]


class ModelConfig(Section):
    """The model, where it runs and in which numbers."""

    from_home: ClassVar[frozenset[str]] = frozenset({"template_arguments"})
    name: Annotated[ModelName, Grants("a model, by a folder or a name")] = "rare"
    """smollm2-135m, a pre-trained model fetched once (docs/how-to/offline.md); a starter (dense,
    rare, very_rare, rarest, rare_small, rare_large, puzzler), a folder, or a Hugging Face hub name.
    """
    revision: Annotated[str, Grants("a model")] = ""
    """Commit, tag or branch of a hub model; empty takes its main branch. Checkpoints and cards name
    the commit that was loaded, and a resumed run takes that one.
    """
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    """Type of the weights. auto: bfloat16 for LoRA on a GPU that supports it, else float32.
    Products are bfloat16 on such a GPU unless this says float32.
    """
    device: Text = "auto"
    """auto takes CUDA if there is one, else the CPU. Or name one: cpu, cuda, cuda:1, mps."""
    quantization: Literal["none", "nf4"] = "none"
    """Quantization of the frozen base under LoRA. nf4: 4 bits a weight (QLoRA), which takes a
    fourth of the memory and more time; needs the extra `memory` (bitsandbytes).
    """
    template_arguments: Annotated[str, AfterValidator(_arguments), Words()] = ""
    """Arguments of the model's chat template, as a JSON object: '{"enable_thinking": false}'. none:
    no template, and prompts are text to go on with, as questions with shots are.
    """
    lora_rank: Count = 0
    """Rank of LoRA adapters (peft), which are trained in place of the weights: on all linear layers
    but the output head, their output multiplied by 2. 0 trains all weights.
    """


class Fp8Config(Section):
    """FP8 in all linear layers except the output head, by the fastest kernel that works here; a CPU
    emulates it.
    """

    precision: Literal["bf16", "fp8", "fp8_rollout"] = "bf16"
    """bf16: no FP8, as model.dtype says. fp8: block-scaled FP8 in generation and training (Jet-RL).
    fp8_rollout: FP8 in generation only, for comparison; choose training.objective truncated.
    """


class GenerationConfig(Section):
    """How completions are generated."""

    from_home: ClassVar[frozenset[str]] = frozenset({"max_completion_length", "stop"})
    num_generations: Annotated[int, Field(ge=2, le=64)] = 8
    """Completions per prompt: the GRPO group size G."""
    max_completion_length: Positive = 16
    """Tokens after which a completion is cut off."""
    stop: Stops = ()
    """Strings that end a completion, which is without them; \\n and \\t are a new line and a tab.
    External completions that ended get the first of them as their end, in place of EOS. Empty: only
    EOS ends one.
    """
    temperature: Annotated[float, Field(gt=0.0)] = 1.0
    """Divides the logits before sampling; the loss uses the same."""
    stop_below: Annotated[float, Field(le=0.0)] = 0.0
    """Stop a completion when the exponentially weighted mean of its log-probs falls below this
    (nats per token); 0 turns it off. The published Temporal Clue recipe has -3.0.
    """
