"""The file for llama.cpp, read back by transformers and by llama.cpp: the same logits, the same
words.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast

from swarm_node import starters
from swarm_node.common.errors import UserError
from swarm_node.hub.gguf import FILE, write

TEXT = "State the final answer to the following arithmetic problem: 4 - 16 = -12\n"
# 512: some unused
SHAPE = {"vocab_size": 512, "bos_token_id": 1, "eos_token_id": 3, "tie_word_embeddings": False}
SHAPE |= {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "max_position_embeddings": 128,
}
SHAPE |= {"num_attention_heads": 4, "num_key_value_heads": 2}


def made(folder: Path, kind: str, dtype: torch.dtype, **more: Any) -> None:
    """A model of this family with random weights, and the tokenizer of a starter. transformers
    reads no width of heads from the file: for Qwen3 it takes the published width.
    """
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(
        AutoConfig.for_model(kind, **{**SHAPE, **more}, head_dim=128 if kind == "qwen3" else 16)
    ).to(dtype)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith(("bias", "norm.weight")):
                # Else a lost bias or norm would not show
                parameter.add_(torch.randn_like(parameter) / 8)
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
    [
        ("", torch.float32),
        ("llama", torch.bfloat16),
        ("qwen2", torch.float16),
        ("qwen3", torch.float32),
    ],
)
def test_the_file_computes_what_the_folder_computes(
    tmp_path: Path, kind: str, dtype: torch.dtype
) -> None:
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
    assert (
        fields["tokenizer.ggml.pre"].contents() == "smollm"
        and fields["general.license"].contents() == "mit"
    )
    words = AutoTokenizer.from_pretrained(starters.folder("rare"))
    known = fields["tokenizer.ggml.tokens"].contents()
    assert known[: len(words)] == words.convert_ids_to_tokens(range(len(words)))


SPLIT = (  # of Llama 3
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| "
    r"?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
BEGIN, ENDS = "<|begin_of_text|>", ("<|end_of_text|>", "<|eom_id|>", "<|eot_id|>")
PLAIN = [[50, 1000.0]]  # forces token 50, whatever the model predicts
SCALED = {
    "rope_type": "llama3",
    "rope_theta": 1e4,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
}


def made_as_llama_3(folder: Path) -> None:
    """A model with scaled positions and three end tokens, and a tokenizer that puts a begin token
    before each text.
    """
    scaled = {**SCALED, "original_max_position_embeddings": 16}
    ends = {"bos_token_id": 0, "eos_token_id": [1, 2, 3]}
    made(folder, "llama", torch.float32, **ends, rope_parameters=scaled, initializer_range=0.2)
    core = Tokenizer(models.BPE())
    split = pre_tokenizers.Split(Regex(SPLIT), "isolated")
    core.pre_tokenizer = pre_tokenizers.Sequence(
        [split, pre_tokenizers.ByteLevel(False, use_regex=False)]
    )
    core.decoder = decoders.ByteLevel()
    words = {
        "initial_alphabet": pre_tokenizers.ByteLevel.alphabet(),
        "special_tokens": [BEGIN, *ENDS],
    }
    core.train_from_iterator([TEXT], trainers.BpeTrainer(vocab_size=300, **words))
    core.post_processor = processors.TemplateProcessing(
        single=f"{BEGIN} $A", special_tokens=[(BEGIN, 0)]
    )
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, bos_token=BEGIN, eos_token=ENDS[0])
    tokenizer.chat_template = (
        "{% for turn in messages %}{{ turn['content'] + '<|eot_id|>' }}{% endfor %}"
    )
    tokenizer.save_pretrained(folder)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["a starter", "Llama 3"])
def test_llama_cpp_computes_what_the_folder_computes_and_ends_at_each_end_token(
    tmp_path: Path, kind: str
) -> None:
    llama = pytest.importorskip("xllamacpp")
    folder = tmp_path / "model"
    if kind == "Llama 3":
        folder.mkdir()
        made_as_llama_3(folder)
    else:
        shutil.copytree(starters.folder("rare"), folder)
    params = llama.CommonParams()
    params.model.path = str(write(folder, "mine", "mit"))
    params.n_ctx, params.cpuparams.n_threads, params.verbosity = 128, 1, 0
    params.cache_type_k = params.cache_type_v = llama.ggml_type.GGML_TYPE_F32
    server = llama.Server(params)

    def said(**options: object) -> dict[str, Any]:
        done = server.handle_completions(
            {"prompt": TEXT, "temperature": 0.0, "max_tokens": 3, **options}
        )
        found: dict[str, Any] = json.loads(done) if isinstance(done, str) else done
        return found

    expected = logits(folder)[0, -1].log_softmax(-1)
    # The bias forces a whole character; log-probs ignore the bias
    done = said(logprobs=8, logit_bias=PLAIN)
    assert done["usage"]["prompt_tokens"] == len(
        AutoTokenizer.from_pretrained(folder)(TEXT).input_ids
    )
    found = {
        each["id"]: each["logprob"]
        for each in done["choices"][0]["logprobs"]["content"][0]["top_logprobs"]
    }
    assert (
        found == {place: pytest.approx(float(expected[place]), abs=0.01) for place in found}
        and len(found) == 8
    )
    ends = (
        AutoTokenizer.from_pretrained(folder).convert_tokens_to_ids(ENDS)
        if kind == "Llama 3"
        else []
    )
    stopped = [said(logit_bias=[[place, 1000.0]])["choices"][0]["finish_reason"] for place in ends]
    assert (
        stopped == ["stop"] * len(ends)
        and said(logit_bias=PLAIN)["choices"][0]["finish_reason"] == "length"
    )


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"model_type": "gemma2"}, "models of type gemma2"),
        ({"rope_parameters": {"rope_type": "yarn", "rope_theta": 1.0}}, "with scaled positions"),
        ({"tokenizer": None}, "how this model's tokenizer splits text"),
        ({"adapters": True}, "add --merge"),
    ],
)
def test_a_model_that_is_not_known_is_one_line(
    tmp_path: Path, change: dict[str, object], reason: str
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(starters.folder("rare"), folder)
    if "tokenizer" in change:
        file = folder / "tokenizer.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), "pre_tokenizer": None}))
    elif "adapters" in change:
        (folder / "adapter_config.json").write_text("{}")
        (folder / "config.json").unlink()  # as adapters are saved
    else:
        file = folder / "config.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), **change}))
    with pytest.raises(UserError, match="--gguf") as raised:
        write(folder, "mine", "mit")
    assert reason in str(raised.value) and "\n" not in str(raised.value)
