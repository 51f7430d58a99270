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


# The same of more models, for comparisons of the memory plan with traces
MORE: dict[str, tuple[Any, tuple[int, ...], dict[str, Any]]] = {
    "Qwen/Qwen2.5-7B-Instruct": (
        Qwen2Config,
        (152_064, 3584, 18_944, 28, 28, 4, 32_768),
        {"tie_word_embeddings": False},
    ),
    "Qwen/Qwen2.5-14B-Instruct": (
        Qwen2Config,
        (152_064, 5120, 13_824, 48, 40, 8, 32_768),
        {"tie_word_embeddings": False},
    ),
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B": (
        Qwen2Config,
        (151_936, 1536, 8960, 28, 12, 2, 131_072),
        {"tie_word_embeddings": False},
    ),
    "Qwen/Qwen3-1.7B": (Qwen3Config, (151_936, 2048, 6144, 28, 16, 8, 40_960), {"head_dim": 128}),
    "Qwen/Qwen3-4B": (Qwen3Config, (151_936, 2560, 9728, 36, 32, 8, 40_960), {"head_dim": 128}),
    "Qwen/Qwen3-8B": (
        Qwen3Config,
        (151_936, 4096, 12_288, 36, 32, 8, 40_960),
        {"head_dim": 128, "tie_word_embeddings": False},
    ),
    "meta-llama/Llama-3.2-3B-Instruct": (
        LlamaConfig,
        (128_256, 3072, 8192, 28, 24, 8, 131_072),
        {"head_dim": 128},
    ),
    "meta-llama/Llama-3.1-8B-Instruct": (
        LlamaConfig,
        (128_256, 4096, 14_336, 32, 32, 8, 131_072),
        {"head_dim": 128, "tie_word_embeddings": False},
    ),
    "meta-llama/Llama-2-7b-chat-hf": (
        LlamaConfig,
        (32_000, 4096, 11_008, 32, 32, 32, 4096),
        {"tie_word_embeddings": False},
    ),
    "TinyLlama/TinyLlama-1.1B-Chat-v1.0": (
        LlamaConfig,
        (32_000, 2048, 5632, 22, 32, 4, 2048),
        {"tie_word_embeddings": False},
    ),
    "HuggingFaceTB/SmolLM2-360M-Instruct": (
        LlamaConfig,
        (49_152, 960, 2560, 32, 15, 5, 8192),
        {},
    ),
    "HuggingFaceTB/SmolLM2-1.7B-Instruct": (
        LlamaConfig,
        (49_152, 2048, 8192, 24, 32, 32, 8192),
        {},
    ),
    "google/gemma-3-1b-it": (
        Gemma3TextConfig,
        (262_144, 1152, 6912, 26, 4, 1, 32_768),
        {"head_dim": 256},
    ),
}


def shapes() -> dict[str, Any]:
    """The configurations in transformers of the models in SHAPES, made anew at each call."""
    return {name: _configured(*described) for name, described in SHAPES.items()}


def more_shapes() -> dict[str, Any]:
    """The configurations of the models in SHAPES and MORE, the smallest first."""
    both = {name: _configured(*described) for name, described in (SHAPES | MORE).items()}
    return dict(sorted(both.items(), key=lambda pair: _size(pair[1])))


def _size(config: Any) -> int:
    table = config.vocab_size * config.hidden_size
    block = config.hidden_size * (3 * config.intermediate_size + 2 * config.hidden_size)
    return int(table + config.num_hidden_layers * block)


def _configured(kind: Any, numbers: tuple[int, ...], more: dict[str, Any]) -> Any:
    options = {"tie_word_embeddings": True, **dict(zip(NAMES, numbers, strict=True)), **more}
    return kind(**options)
