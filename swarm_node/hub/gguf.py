"""`swarm-node model export --gguf`: an exported folder as one file for llama.cpp, Ollama and
similar programs.

ggml-org's package `gguf` has the format, the names of tensors and the writer. Its converter is a
script of llama.cpp, not a package. This module does the same for dense models of the Llama and Qwen
families, and refuses other models.
"""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from swarm_node.common.errors import UserError
from swarm_node.common.parsing import read_json

if TYPE_CHECKING:
    import numpy

FILE = "model.gguf"
MAX_JSON_BYTES = 1 << 28  # a tokenizer of 250,000 tokens has 34 MB
SCRIPT = "convert the folder with llama.cpp's convert_hf_to_gguf.py"
# model_type -> name in the file
FAMILIES = {"llama": "llama", "mistral": "llama", "qwen2": "qwen2", "qwen3": "qwen3"}
NORMAL, CONTROL, USER_DEFINED, UNUSED = 1, 3, 4, 5  # kinds of tokens in the file
# Parts of the splitting patterns of Qwen2 and Llama 3
ONE_DIGIT, THREE_DIGITS = r"\p{N}|", r"\p{N}{1,3}|"


def _read(file: Path) -> dict[str, Any]:
    """The object in a JSON file of the model. Raises UserError where there is none."""
    try:
        found = read_json(file, MAX_JSON_BYTES)
    except (OSError, ValueError) as error:
        raise UserError(f"{file.name} of the model is broken: {error}") from error
    if not isinstance(found, dict):
        raise UserError(f"{file.name} of the model is not a JSON object")
    return found


def write(folder: Path, name: str, licence: str) -> Path:
    """Writes the file into the folder of a whole model, and returns its path. Raises UserError for
    a model that is refused.
    """
    if (folder / "adapter_config.json").exists():
        raise UserError(
            "--gguf needs whole weights: add --merge, which makes the adapters part of them"
        )
    try:
        import gguf
    except ImportError as error:
        raise UserError("--gguf needs the extra gguf: pip install 'textswarm[gguf]'") from error
    config = _read(folder / "config.json")
    family = _family(folder, config)
    tokenizer = _read(folder / "tokenizer.json")
    out = folder / FILE
    writer = gguf.GGUFWriter(out, family)
    writer.add_name(name)
    writer.add_license(licence)
    _shape(writer, config)
    _words(writer, folder, tokenizer, config)
    template = folder / "chat_template.jinja"
    if template.exists():
        writer.add_chat_template(template.read_text(encoding="utf-8"))
    names = gguf.get_tensor_name_map(
        getattr(gguf.MODEL_ARCH, family.upper()), config["num_hidden_layers"]
    )
    if (factors := _frequency_factors(config)) is not None:
        writer.add_tensor(gguf.TENSOR_NAMES[gguf.MODEL_TENSOR.ROPE_FREQS] + ".weight", factors)
    for tensor, values in _tensors(folder):
        known = names.get_name(tensor, try_suffixes=(".weight", ".bias"))
        if known is None:
            raise UserError(f"--gguf does not know the tensor {tensor}: {SCRIPT}")
        writer.add_tensor(known, *_stored(_turned(tensor, values, config, family), gguf))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return out


def _family(folder: Path, config: Mapping[str, Any]) -> str:
    """The family of the model, as the file names it. Raises UserError for a model that is
    refused.
    """
    family = FAMILIES.get(config["model_type"])
    scaled = (config.get("rope_parameters") or {}).get("rope_type") not in ("default", "llama3")
    has_bias = config.get("mlp_bias") or (family == "llama" and config.get("attention_bias"))
    if family is None or scaled or has_bias:
        what = f"models of type {config['model_type']}" + (
            " with scaled positions or biases" if family else ""
        )
        raise UserError(f"--gguf does not know {what}: {SCRIPT}")
    return family


def _shape(writer: Any, config: Mapping[str, Any]) -> None:
    heads, width = config["num_attention_heads"], _head_width(config)
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(config.get("num_key_value_heads") or heads)
    writer.add_key_length(width)
    writer.add_value_length(width)
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_dimension_count(width)
    writer.add_rope_freq_base(config["rope_parameters"]["rope_theta"])
    writer.add_vocab_size(config["vocab_size"])


def _head_width(config: Mapping[str, Any]) -> int:
    return int(config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"])


def _frequency_factors(config: Mapping[str, Any]) -> "numpy.ndarray[Any, Any] | None":
    """The divisors of the rotary frequencies of Llama 3.1 and its successors, [head width / 2],
    largest for the slow ones; None for models that divide none. llama.cpp reads them as a tensor.
    """
    import numpy

    about, width = config["rope_parameters"], _head_width(config)
    if about["rope_type"] == "default":
        return None
    # Tokens in a full rotation
    waves = 2 * math.pi * about["rope_theta"] ** (numpy.arange(0, width, 2) / width)
    low, high, most = about["low_freq_factor"], about["high_freq_factor"], about["factor"]
    # 0: slow, 1: fast
    fast = (about["original_max_position_embeddings"] / waves - low) / (high - low)
    share = fast.clip(0.0, 1.0)
    factors: numpy.ndarray[Any, Any] = 1.0 / ((1.0 - share) / most + share)
    return factors.astype(numpy.float32)


def _words(
    writer: Any, folder: Path, tokenizer: Mapping[str, Any], config: Mapping[str, Any]
) -> None:
    """Writes the tokenizer: byte-level BPE, with llama.cpp's name for how it splits text."""
    model = tokenizer["model"]
    tokens = {place: (token, NORMAL) for token, place in model["vocab"].items()}
    for added in tokenizer["added_tokens"]:
        tokens[added["id"]] = (added["content"], CONTROL if added["special"] else USER_DEFINED)
    places = range(config["vocab_size"])
    listed = [tokens.get(place, (f"[UNUSED{place}]", UNUSED)) for place in places]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(_splitting(tokenizer))
    writer.add_token_list([token for token, _ in listed])
    writer.add_token_types([kind for _, kind in listed])
    # A merge is a text, or a list of its two parts in newer files
    merges = list[str]()
    for merge in model["merges"]:
        merges.append(merge if isinstance(merge, str) else " ".join(merge))
    writer.add_token_merges(merges)
    from transformers import AutoTokenizer

    from swarm_node.policy.policy import turn_end

    whole = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    generation = folder / "generation_config.json"
    ends = _read(generation).get("eos_token_id") if generation.exists() else None
    ends = config.get("eos_token_id") if ends is None else ends
    ends = ends if isinstance(ends, list) else [ends]
    eos = whole.eos_token_id if whole.eos_token_id is not None else ends[0]
    special = {
        "bos": whole.bos_token_id,
        "eos": eos,
        "pad": whole.pad_token_id,
        "eot": turn_end(whole, ends, eos),
    }
    for which, place in special.items():
        if (place := config.get(f"{which}_token_id") if place is None else place) is not None:
            getattr(writer, f"add_{which}_token_id")(place)
    writer.add_add_bos_token(whole("x").input_ids[0] == whole.bos_token_id)


def _splitting(tokenizer: Mapping[str, Any]) -> str:
    outer = tokenizer.get("pre_tokenizer") or {}
    steps = outer.get("pretokenizers", [outer])
    kinds = [step.get("type") for step in steps]
    patterns = " ".join(step.get("pattern", {}).get("Regex", "") for step in steps)
    if tokenizer["model"]["type"] == "BPE" and kinds and kinds[-1] == "ByteLevel":
        if kinds == ["Digits", "ByteLevel"] and steps[0].get("individual_digits"):
            return "smollm"
        if kinds == ["ByteLevel"]:
            return "gpt-2"
        if kinds == ["Split", "ByteLevel"] and (THREE_DIGITS in patterns or ONE_DIGIT in patterns):
            return "llama-bpe" if THREE_DIGITS in patterns else "qwen2"
    raise UserError(f"--gguf does not know how this model's tokenizer splits text: {SCRIPT}")


def _tensors(folder: Path) -> Iterator[tuple[str, Any]]:
    from safetensors import safe_open

    for file in sorted(folder.glob("*.safetensors")):
        with safe_open(file, "pt") as tensors:
            for name in tensors.keys():  # noqa: SIM118  it is not a dictionary
                yield name, tensors.get_tensor(name)


def _turned(name: str, values: Any, config: Mapping[str, Any], family: str) -> Any:
    """Llama's query and key weights with the rows of a rotated pair side by side: transformers has
    them in halves.
    """
    if family != "llama" or not name.endswith(("q_proj.weight", "k_proj.weight")):
        return values
    heads = config["num_attention_heads"]
    if name.endswith("k_proj.weight"):
        heads = config.get("num_key_value_heads") or heads
    rows, columns = values.shape
    halves = values.reshape(heads, 2, rows // heads // 2, columns)
    return halves.transpose(1, 2).reshape(rows, columns)


def _stored(values: Any, gguf: Any) -> "tuple[numpy.ndarray[Any, Any], None, Any]":
    """The tensor in its own precision, but in 32 bits if it has one dimension, as llama.cpp wants
    it.
    """
    import torch

    kinds = gguf.GGMLQuantizationType
    if values.dtype == torch.bfloat16 and values.dim() > 1:
        return gguf.quants.quantize(values.float().numpy(), kinds.BF16), None, kinds.BF16
    if values.dtype == torch.float16 and values.dim() > 1:
        return values.numpy(), None, kinds.F16
    return values.float().contiguous().numpy(), None, kinds.F32
