"""Architectures of models that people have, by their names on the hub: shapes only, no weights."""

from typing import Any

from transformers import Gemma3TextConfig, LlamaConfig, Qwen2Config, Qwen3Config


def _qwen2(hidden: int, feed_forward: int, layers: int, heads: int) -> Any:
    return Qwen2Config(
        vocab_size=151_936,
        hidden_size=hidden,
        intermediate_size=feed_forward,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=2,
        max_position_embeddings=32_768,
        tie_word_embeddings=True,
    )


def _llama(vocabulary: int, hidden: int, feed_forward: int, layers: int, heads: tuple[int, int]) -> Any:
    return LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=hidden,
        intermediate_size=feed_forward,
        num_hidden_layers=layers,
        num_attention_heads=heads[0],
        num_key_value_heads=heads[1],
        head_dim=64,
        max_position_embeddings=8192,
        tie_word_embeddings=True,
    )


def shapes() -> dict[str, Any]:
    """transformers configurations."""
    return {
        "Qwen/Qwen2.5-0.5B-Instruct": _qwen2(896, 4864, 24, 14),
        "Qwen/Qwen2.5-1.5B-Instruct": _qwen2(1536, 8960, 28, 12),
        "Qwen/Qwen2.5-3B-Instruct": _qwen2(2048, 11_008, 36, 16),
        "Qwen/Qwen3-0.6B": Qwen3Config(
            vocab_size=151_936,
            hidden_size=1024,
            intermediate_size=3072,
            num_hidden_layers=28,
            num_attention_heads=16,
            num_key_value_heads=8,
            head_dim=128,
            max_position_embeddings=40_960,
            tie_word_embeddings=True,
        ),
        "meta-llama/Llama-3.2-1B-Instruct": _llama(128_256, 2048, 8192, 16, (32, 8)),
        "google/gemma-3-270m-it": Gemma3TextConfig(
            vocab_size=262_144,
            hidden_size=640,
            intermediate_size=2048,
            num_hidden_layers=18,
            num_attention_heads=4,
            num_key_value_heads=1,
            head_dim=256,
            max_position_embeddings=32_768,
            tie_word_embeddings=True,
        ),
        "HuggingFaceTB/SmolLM2-135M-Instruct": _llama(49_152, 576, 1536, 30, (9, 3)),
    }
