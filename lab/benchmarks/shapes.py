"""Architectures of models that people use, by their names on the hub: shapes only, no weights."""

from typing import Any

from transformers import Gemma3TextConfig, LlamaConfig, Qwen2Config, Qwen3Config

NAMES = (
    "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
    "num_key_value_heads", "max_position_embeddings",
)  # fmt: skip
# Class, numbers by NAMES, other fields
SHAPES: dict[str, tuple[Any, tuple[int, ...], dict[str, int]]] = {
    "Qwen/Qwen2.5-0.5B-Instruct": (Qwen2Config, (151_936, 896, 4864, 24, 14, 2, 32_768), {}),
    "Qwen/Qwen2.5-1.5B-Instruct": (Qwen2Config, (151_936, 1536, 8960, 28, 12, 2, 32_768), {}),
    "Qwen/Qwen2.5-3B-Instruct": (Qwen2Config, (151_936, 2048, 11_008, 36, 16, 2, 32_768), {}),
    "Qwen/Qwen3-0.6B": (Qwen3Config, (151_936, 1024, 3072, 28, 16, 8, 40_960), {"head_dim": 128}),
    "Qwen/Qwen3-1.7B": (Qwen3Config, (151_936, 2048, 6144, 28, 16, 8, 40_960), {"head_dim": 128}),
    "Qwen/Qwen3-4B-Instruct-2507": (
        Qwen3Config,
        (151_936, 2560, 9728, 36, 32, 8, 262_144),
        {"head_dim": 128},
    ),
    "meta-llama/Llama-3.2-1B-Instruct": (
        LlamaConfig,
        (128_256, 2048, 8192, 16, 32, 8, 8192),
        {"head_dim": 64},
    ),
    "google/gemma-3-270m-it": (
        Gemma3TextConfig,
        (262_144, 640, 2048, 18, 4, 1, 32_768),
        {"head_dim": 256},
    ),
    "HuggingFaceTB/SmolLM2-135M-Instruct": (
        LlamaConfig,
        (49_152, 576, 1536, 30, 9, 3, 8192),
        {"head_dim": 64},
    ),
}


def shapes() -> dict[str, Any]:
    """transformers configurations, new ones at each call."""
    return {
        model: kind(**dict(zip(NAMES, numbers, strict=True)), **more, tie_word_embeddings=True)
        for model, (kind, numbers, more) in SHAPES.items()
    }
