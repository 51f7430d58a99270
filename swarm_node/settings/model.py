"""The model, and how it generates completions."""

from pathlib import Path
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
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    """Of the weights. auto: float32 on the CPU and for full training; bfloat16 under LoRA on a GPU that has it."""
    autocast: Literal["auto", "off", "bfloat16"] = "auto"
    """Type of the matrix products. auto: bfloat16 on a GPU that has it, off elsewhere."""
    device: str = "auto"
    """auto takes CUDA where there is one, else the CPU; or name one: cpu, cuda, cuda:1, mps."""
    precision: Literal["bf16", "fp8", "fp8_rollout"] = "bf16"
    """Of linear layers but the output head. bf16: as dtype and autocast say. fp8: block-scaled FP8 in generation
    and training alike (Jet-RL). fp8_rollout: in generation only, to compare with; choose
    training.objective truncated."""
    fp8_kernel: Literal["auto", "reference", "fast"] = "auto"
    """auto: the fastest FP8 product that works here, on a CPU the reference. reference: emulated exactly, slow."""
    lora: LoraConfig = LoraConfig()


class GenerationConfig(Section):
    """How completions are generated."""

    num_generations: Annotated[int, Field(ge=2, le=64)] = 8
    """Completions per prompt: the GRPO group size G."""
    max_completion_length: Positive = 16
    """Tokens a completion may have before it is cut off."""
    temperature: Annotated[float, Field(gt=0.0)] = 1.0
    """Divides the logits before sampling; the loss uses the same."""
    top_p: Annotated[float, Field(gt=0.0, le=1.0)] = 1.0
    """Nucleus: sample among the likeliest tokens that together have this probability; 1 turns it off."""
    top_k: Count = 0
    """Sample among the k likeliest tokens; 0 turns it off."""
    max_concurrent_tokens: Count = 0
    """Tokens, of prompts and completions together, to decode at the same time; 0 decodes a round's prompts all at
    once. Bounds memory: completions are admitted by their expected length, 1.3 times as many as would fit."""
    stop_below: Annotated[float, Field(le=0.0)] = 0.0
    """Break a completion off when the exponentially weighted mean of its log-probs falls below this (nats per token);
    0 turns it off. The published Temporal Clue recipe has -3.0."""
    stop_memory: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.992
    """Weight of the past in that mean, at each token."""
    decoder: Literal["auto", "native", "model"] = "auto"
    """native: our forward for Llama and Qwen shapes. model: the forward of transformers. auto: native where its logits
    agree."""
    vllm_url: str = ""
    """Generate with the vLLM server at this address, e.g. http://127.0.0.1:8000, instead of in this process."""
    vllm_folder: Path = Path("~/.swarm-node/vllm")
    """Folder that the server serves: the weights are written there after each update."""
    vllm_timeout: Annotated[float, Field(gt=0.0)] = 600.0
    """Seconds that the server may take for one prompt and its completions."""
