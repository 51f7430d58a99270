"""The file for llama.cpp, read back by transformers: the same logits, the same words."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from swarm_node import starters
from swarm_node.common.errors import UserError
from swarm_node.extensions.hub.gguf import FILE, write

TEXT = "State the final answer to the following arithmetic problem: 4 - 16 = -12\n"
SHAPE = {
    "vocab_size": 512,  # more than the tokenizer knows
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "tie_word_embeddings": False,
    "bos_token_id": 1,
    "eos_token_id": 3,
}


def made(folder: Path, kind: str, dtype: torch.dtype) -> None:
    """A model of this family with random weights, and the words of a starter. transformers reads no width of heads from
    the file: of Qwen3 it takes the published one."""
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(
        AutoConfig.for_model(kind, **SHAPE, head_dim=128 if kind == "qwen3" else 16)
    ).to(dtype)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith(("bias", "norm.weight")):
                parameter.add_(torch.randn_like(parameter) / 8)  # else a lost one would not show
    model.save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copy(starters.folder("rare") / name, folder)


def logits(folder: Path, file: str | None = None) -> torch.Tensor:
    ids = AutoTokenizer.from_pretrained(folder)(TEXT, return_tensors="pt").input_ids
    model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=file, dtype=torch.float32)
    with torch.no_grad():
        found: torch.Tensor = model(ids).logits
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "dtype"),
    [("", torch.float32), ("llama", torch.bfloat16), ("qwen2", torch.float16), ("qwen3", torch.float32)],
)
def test_the_file_computes_what_the_folder_computes(tmp_path: Path, kind: str, dtype: torch.dtype) -> None:
    from gguf import GGUFReader

    folder = tmp_path / "model"
    if kind:
        folder.mkdir()
        made(folder, kind, dtype)
    else:
        shutil.copytree(starters.folder("rare"), folder)
    file = write(folder, "mine", "mit")
    torch.testing.assert_close(logits(folder, FILE), logits(folder), rtol=1e-5, atol=1e-5)
    fields = GGUFReader(file).fields
    assert fields["tokenizer.ggml.pre"].contents() == "smollm" and fields["general.license"].contents() == "mit"
    words = AutoTokenizer.from_pretrained(starters.folder("rare"))
    known = fields["tokenizer.ggml.tokens"].contents()
    assert known[: len(words)] == words.convert_ids_to_tokens(range(len(words)))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"model_type": "gemma2"}, "models of type gemma2"),
        ({"rope_parameters": {"rope_type": "llama3", "rope_theta": 1.0}}, "with scaled positions"),
        ({"tokenizer": None}, "how this model's tokenizer splits text"),
        ({"adapters": True}, "add --merge"),
    ],
)
def test_a_model_that_is_not_known_is_one_line(tmp_path: Path, change: dict[str, object], reason: str) -> None:
    folder = tmp_path / "model"
    shutil.copytree(starters.folder("rare"), folder)
    if "tokenizer" in change:
        file = folder / "tokenizer.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), "pre_tokenizer": None}))
    elif "adapters" in change:
        (folder / "adapter_config.json").write_text("{}")
    else:
        file = folder / "config.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), **change}))
    with pytest.raises(UserError, match="--gguf") as raised:
        write(folder, "mine", "mit")
    assert reason in str(raised.value) and "\n" not in str(raised.value)
