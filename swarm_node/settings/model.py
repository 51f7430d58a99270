"""The model, and how it generates completions."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from swarm_node.settings.sections import Count, Positive, Section, WithCommas, json_object

NO_TEMPLATE = "none"


def _escapes(text: str) -> str:
    """A shell hands over a backslash and an n."""
    return text.replace("\\n", "\n").replace("\\t", "\t")


def _arguments(text: str) -> str:
    return text if text == NO_TEMPLATE else json_object(text)


Stops = Annotated[tuple[Annotated[str, Field(min_length=1), AfterValidator(_escapes)], ...], WithCommas()]


class ModelConfig(Section):
    """The model, where it runs and in which numbers."""

    name: str = "rare"
    """smollm2-135m, a pre-trained model fetched once (docs/how-to/offline.md); a starter (dense, rare, very_rare,
    rarest, rare_small, rare_large, puzzler), a folder, or a Hugging Face hub name."""
    revision: str = ""
    """Commit, tag or branch of a hub model; empty takes its main branch. Checkpoints and cards name the commit that was
    loaded, and a resumed run takes that one."""
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    """Type of the weights. auto: bfloat16 for LoRA on a GPU that supports it, else float32. Products are bfloat16
    on such a GPU unless this says float32."""
    device: str = "auto"
    """auto takes CUDA if there is one, else the CPU. Or name one: cpu, cuda, cuda:1, mps."""
    quantization: Literal["none", "nf4"] = "none"
    """Of the frozen base under LoRA. nf4: 4 bits a weight (QLoRA), which takes a fourth of the memory and more time;
    needs the extra `memory` (bitsandbytes)."""
    template_arguments: Annotated[str, AfterValidator(_arguments)] = ""
    """Arguments of the model's chat template, as a JSON object: '{"enable_thinking": false}'. none: no template, and
    prompts are text to go on with, as questions with shots are."""
    lora_rank: Count = 0
    """Rank of LoRA adapters (peft), which are trained in place of the weights: on all linear layers but the
    output head, their output multiplied by 2. 0 trains all weights."""


class GenerationConfig(Section):
    """How completions are generated."""

    num_generations: Annotated[int, Field(ge=2, le=64)] = 8
    """Completions per prompt: the GRPO group size G."""
    max_completion_length: Positive = 16
    """Tokens after which a completion is cut off."""
    stop: Stops = ()
    """Strings that end a completion, which is without them; \\n and \\t are a new line and a tab. External completions
    that ended get the first of them as their end, in place of EOS. Empty: only EOS ends one."""
    temperature: Annotated[float, Field(gt=0.0)] = 1.0
    """Divides the logits before sampling; the loss uses the same."""
    stop_below: Annotated[float, Field(le=0.0)] = 0.0
    """Stop a completion when the exponentially weighted mean of its log-probs falls below this (nats per token);
    0 turns it off. The published Temporal Clue recipe has -3.0."""
