"""A GGUF file of a Llama model, quantised or not, as a Hugging Face folder in bfloat16.

It reads the three kinds of numbers and the kind of tokenizer that the models in named.py have.
transformers reads more kinds, but not this tokenizer: it leaves out that digits stand apart, and so
gave other token ids for 50 of 1,000 prompts. docs/how-to/offline.md has the measurement.
"""

import mmap
import struct
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import GenerationConfig, LlamaConfig, PreTrainedTokenizerFast

FLOAT32, Q4_1, Q8_0 = 0, 3, 8
BLOCK = {FLOAT32: (1, 4), Q4_1: (32, 20), Q8_0: (32, 34)}  # numbers, bytes
SCALARS = dict(enumerate("BbHhIif?")) | {10: "Q", 11: "q", 12: "d"}
TEXT, ARRAY, CONTROL = 8, 9, 3
NAMES = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
}


class _Reader:
    """Reads the values of the file, in their order."""

    def __init__(self, data: mmap.mmap) -> None:
        self.data, self.at = data, 0

    def scalar(self, code: str) -> Any:
        (value,) = struct.unpack_from(f"<{code}", self.data, self.at)
        self.at += struct.calcsize(f"<{code}")
        return value

    def text(self) -> str:
        size = self.scalar("Q")
        self.at += size
        return self.data[self.at - size : self.at].decode()

    def value(self, kind: int) -> Any:
        if kind == TEXT:
            return self.text()
        if kind == ARRAY:
            inner, count = self.scalar("I"), self.scalar("Q")
            return [self.value(inner) for _ in range(count)]
        return self.scalar(SCALARS[kind])


def convert(source: Path, out: Path) -> None:
    """Writes the folder `out`. Raises ValueError, KeyError or struct.error for a file of another
    kind.
    """
    with source.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        reader = _Reader(data)
        if reader.scalar("4s") != b"GGUF" or reader.scalar("I") != 3:
            raise ValueError("it is not a GGUF file of version 3")
        tensors, facts = reader.scalar("Q"), reader.scalar("Q")
        told = {reader.text(): reader.value(reader.scalar("I")) for _ in range(facts)}
        listed = []
        for _ in range(tensors):
            name, dimensions = reader.text(), reader.scalar("I")
            shape = [reader.scalar("Q") for _ in range(dimensions)][::-1]
            listed.append((name, shape, reader.scalar("I"), reader.scalar("Q")))
        step = told.get("general.alignment", 32)
        start = -(-reader.at // step) * step
        config = _config(told)
        weights = {}
        for name, shape, kind, offset in listed:
            numbers, size = BLOCK[kind]
            packed = np.frombuffer(
                data, np.uint8, int(np.prod(shape)) // numbers * size, start + offset
            ).copy()
            heads = {
                "attn_q": config.num_attention_heads,
                "attn_k": config.num_key_value_heads,
            }.get(_part(name))
            values = _numbers(packed, kind).reshape(shape)
            if heads:  # llama.cpp has the two halves of a head's rotary dimensions interleaved
                values = values.reshape(heads, -1, 2, shape[1]).swapaxes(1, 2).reshape(shape)
            weights[_name(name)] = torch.from_numpy(np.ascontiguousarray(values)).to(torch.bfloat16)
    out.mkdir()
    save_file(weights, out / "model.safetensors", metadata={"format": "pt"})
    config.save_pretrained(out)
    GenerationConfig.from_model_config(config).save_pretrained(out)
    _tokenizer(told).save_pretrained(out)


def _part(name: str) -> str:
    return name.removesuffix(".weight").rpartition(".")[2]


def _name(name: str) -> str:
    layer = f"model.layers.{name.split('.')[1]}." if name.startswith("blk.") else ""
    return f"{layer}{NAMES[_part(name)]}.weight"


def _numbers(packed: Any, kind: int) -> Any:
    """The numbers as float32, in one row. A block has a scale, and in Q4_1 also a least value."""
    if kind == FLOAT32:
        return packed.view("<f4")
    blocks = packed.reshape(-1, BLOCK[kind][1])
    scale = blocks[:, :2].view("<f2").astype(np.float32)
    if kind == Q8_0:
        return (blocks[:, 2:].view(np.int8) * scale).ravel()
    least, pairs = blocks[:, 2:4].view("<f2").astype(np.float32), blocks[:, 4:]
    return (np.concatenate([pairs & 15, pairs >> 4], axis=1) * scale + least).ravel()


def _config(told: dict[str, Any]) -> LlamaConfig:
    special = "tokenizer.ggml.{}_token_id".format
    return LlamaConfig(
        architectures=["LlamaForCausalLM"],
        vocab_size=len(told["tokenizer.ggml.tokens"]),
        hidden_size=told["llama.embedding_length"],
        intermediate_size=told["llama.feed_forward_length"],
        num_hidden_layers=told["llama.block_count"],
        num_attention_heads=told["llama.attention.head_count"],
        num_key_value_heads=told["llama.attention.head_count_kv"],
        max_position_embeddings=told["llama.context_length"],
        rms_norm_eps=round(told["llama.attention.layer_norm_rms_epsilon"], 9),
        rope_parameters={"rope_type": "default", "rope_theta": told["llama.rope.freq_base"]},
        bos_token_id=told[special("bos")],
        eos_token_id=told[special("eos")],
        pad_token_id=told[special("padding")],
        tie_word_embeddings=True,
        dtype=torch.bfloat16,
    )


def _tokenizer(told: dict[str, Any]) -> PreTrainedTokenizerFast:
    """A tokenizer of byte-level BPE with digits apart, as all of SmolLM2 have. ValueError for
    another kind.
    """
    if told["tokenizer.ggml.pre"] != "smollm":
        raise ValueError(f"its tokenizer is of kind {told['tokenizer.ggml.pre']}")
    tokens, kinds = told["tokenizer.ggml.tokens"], told["tokenizer.ggml.token_type"]
    merges = [tuple(merge.split(" ", 1)) for merge in told["tokenizer.ggml.merges"]]
    made = Tokenizer(models.BPE({token: number for number, token in enumerate(tokens)}, merges))
    digits, pieces = (
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False),
    )
    made.pre_tokenizer = pre_tokenizers.Sequence([digits, pieces])
    made.decoder = decoders.ByteLevel()
    special = [token for token, kind in zip(tokens, kinds, strict=True) if kind == CONTROL]
    made.add_special_tokens(
        [AddedToken(token, special=True, normalized=False) for token in special]
    )
    named = {"bos": "bos", "eos": "eos", "unk": "unknown", "pad": "padding"}
    chosen = {
        f"{ours}_token": tokens[told[f"tokenizer.ggml.{name}_token_id"]]
        for ours, name in named.items()
    }
    return PreTrainedTokenizerFast(
        tokenizer_object=made,
        **chosen,
        model_max_length=told["llama.context_length"],
        chat_template=told["tokenizer.chat_template"],
        clean_up_tokenization_spaces=False,
    )
