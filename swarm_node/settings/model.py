"""The model, and how it generates completions."""

from typing import Annotated, Literal

from pydantic import Field

from swarm_node.settings.sections import Count, Positive, Section


class LoraConfig(Section):
    """Adapters that are trained in place of the weights."""

    r: Count = 0
    """Rank of LoRA adapters (peft); 0 trains all weights."""
    alpha: Positive = 32
    """Scale of the adapters: their output is multiplied by alpha / r."""
    target_modules: tuple[str, ...] = ()
    """Modules that get an adapter; empty means all linear layers but the output head."""


class ModelConfig(Section):
    """The model, where it runs and in which numbers."""

    name: str = "rare"
    """A starter (dense, rare, very_rare, rarest, rare_small, rare_large, puzzler), a folder, or a Hugging Face hub
    name."""
    revision: str = ""
    """Commit, tag or branch of a hub model; empty takes its main branch. Checkpoints and cards name the commit that was
    loaded, and a resumed run takes that one."""
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    """Type of the weights. auto: bfloat16 for LoRA on a GPU that supports it, else float32."""
    autocast: Literal["auto", "off", "bfloat16"] = "auto"
    """Type of the matrix products. auto: bfloat16 on a GPU that supports it, off elsewhere."""
    device: str = "auto"
    """auto takes CUDA if there is one, else the CPU. Or name one: cpu, cuda, cuda:1, mps."""
    quantization: Literal["none", "nf4"] = "none"
    """Of the frozen base under LoRA. nf4: 4 bits a weight (QLoRA), which takes a fourth of the memory and more time;
    needs the extra `memory` (bitsandbytes)."""
    lora: LoraConfig = LoraConfig()


class GenerationConfig(Section):
    """How completions are generated."""

    num_generations: Annotated[int, Field(ge=2, le=64)] = 8
    """Completions per prompt: the GRPO group size G."""
    max_completion_length: Positive = 16
    """Tokens after which a completion is cut off."""
    temperature: Annotated[float, Field(gt=0.0)] = 1.0
    """Divides the logits before sampling; the loss uses the same."""
    top_p: Annotated[float, Field(gt=0.0, le=1.0)] = 1.0
    """Nucleus: sample among the likeliest tokens that together have this probability. 1 turns it off."""
    top_k: Count = 0
    """Sample among the k likeliest tokens; 0 turns it off."""
    max_concurrent_tokens: Count = 0
    """Tokens, of prompts and completions together, to decode at the same time; 0 decodes a round's prompts all at
    once. Bounds memory: completions are admitted by their expected length, 1.3 times as many as would fit."""
    stop_below: Annotated[float, Field(le=0.0)] = 0.0
    """Stop a completion when the exponentially weighted mean of its log-probs falls below this (nats per token);
    0 turns it off. The published Temporal Clue recipe has -3.0."""
    stop_memory: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.992
    """Weight of the past in that mean, at each token."""
    decoder: Literal["auto", "native", "model"] = "auto"
    """native: our decoder for Llama and Qwen shapes. model: the forward of transformers. auto: native if its logits
    agree with the model's."""
