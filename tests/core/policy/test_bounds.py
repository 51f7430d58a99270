"""A model folder that asks for more than any model needs is refused in one line, before anything
is built.
"""

import json
import shutil
from pathlib import Path

import pytest
from transformers import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from lab.fuzzing.models import ADAPTER, ADAPTERS, PANICS, _adapt, _merge
from swarm_node import starters
from swarm_node.common.errors import UserError
from swarm_node.policy import bounds, loading, memory_plan
from swarm_node.policy.bounds import TooLarge, check_adapters, check_config
from swarm_node.settings import LearningConfig, ModelConfig
from tests.commands import ended


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(starters.folder("rare"), tmp_path / "model"))


def defaults() -> list[dict[str, object]]:
    """The configuration of every causal language model in transformers, by default."""
    found = []
    for name in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
        try:
            found.append(json.loads(CONFIG_MAPPING[name]().to_json_string(use_diff=False)))
        except Exception:  # noqa: BLE001  (one of them has no defaults)
            continue
    return found


def test_every_kind_of_model_is_taken_and_every_number_of_it_has_a_bound() -> None:
    every = defaults()
    assert len(every) > 150
    for config in every:
        check_config(config)
        for key, value in config.items():
            if not isinstance(value, int) or isinstance(value, bool):
                continue
            with pytest.raises(TooLarge, match=key):
                check_config({**config, key: 3_000_000_000})
            if "layer" in key and "vocab" not in key:
                with pytest.raises(TooLarge):
                    check_config({**config, key: 3_000_000})


@pytest.mark.parametrize(
    "config",
    [
        {"text_config": {"inner": [{"num_hidden_layers": 1025}]}},
        {"num_hidden_layers": -3_000_000},
        {"num_hidden_layers": 10**4000},
        {"num_labels": 99_999},
        {"layer_types": ["full_attention"] * 20_000},
        {"num_hidden_layers": 1000, "num_experts": 10_000},
        {"id2label": {str(number): "x" for number in range(20_000)}},
    ],
)
def test_a_number_or_a_list_above_its_bound_is_refused(config: dict[str, object]) -> None:
    with pytest.raises(TooLarge) as raised:
        check_config(config)
    assert len(str(raised.value)) < 200 and "\n" not in str(raised.value)


@pytest.mark.parametrize("name", [name for name in ADAPTERS if name not in ("honest", "kind")])
def test_an_adapter_that_computes_or_imports_is_refused(name: str, folder: Path) -> None:
    _adapt({**ADAPTER, **ADAPTERS[name]}, folder)
    if name in ("library", "no base", "base", "base of its own", "names"):
        return  # read by the corpus: peft or transformers refuses these, or leaves them alone
    with pytest.raises(UserError) as raised:
        loading.load_policy(ModelConfig(name=str(folder)))
    assert "adapter_config.json" in str(raised.value)


def test_an_honest_adapter_is_taken(folder: Path) -> None:
    _adapt(ADAPTER, folder)
    policy = loading.load_policy(ModelConfig(name=str(folder)))
    assert policy.encode_prompt("?")
    named = {"target_modules": ["q_proj", "model.layers.0.mlp.up_proj"], "rank_pattern": {}}
    check_adapters({**named, "target_modules": "all-linear", "init_lora_weights": "gaussian"})
    check_adapters({**named, "rank_pattern": {"^model.layers.0.self_attn.q_proj": 8}})


def test_a_model_larger_than_its_files_is_refused_before_memory_is_taken(folder: Path) -> None:
    _merge("config.json", {"num_hidden_layers": 400, "intermediate_size": 100_000}, folder)
    with pytest.raises(UserError, match=r"config\.json describes .* weights .* its files have"):
        loading.load_policy(ModelConfig(name=str(folder)))


def test_the_plan_for_a_card_reads_no_such_model(folder: Path) -> None:
    _merge("config.json", {"num_hidden_layers": 3_000_000}, folder)
    config = LearningConfig(model=ModelConfig(name=str(folder)))
    with pytest.raises(UserError, match="num_hidden_layers is 3,000,000, above"):
        memory_plan.plan_for(config, "8GB")


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ("check", "--model.name", "MODEL"),
        ("check", "--model.name", "MODEL", "--memory", "8GB"),
        ("run", "--model.name", "MODEL", "--home", "HOME", "--network.no-enabled"),
        ("model", "eval", "MODEL"),
        ("model", "export", "OUT", "--home", "HOME"),
        ("model", "export", "OUT", "--home", "HOME", "--gguf"),
    ],
    ids=" ".join,
)
def test_every_command_refuses_three_million_layers_in_one_line(
    words: tuple[str, ...], folder: Path, tmp_path: Path
) -> None:
    _merge("config.json", {"num_hidden_layers": 3_000_000}, folder)
    home = tmp_path / "home"
    if words[:2] == ("model", "export"):
        checkpoint = home / "checkpoints" / "00000001"
        shutil.copytree(folder, checkpoint)
        state = {"format": 1, "rounds": 1, "optimizer_steps": 1, "version": 1, "extra": {}}
        (checkpoint / "state.json").write_text(json.dumps(state))
    places = {"MODEL": folder, "HOME": home, "OUT": tmp_path / "out"}
    done = ended(*(places.get(word, word) for word in words))
    assert done.returncode == 2, done
    last = done.stderr.splitlines()[-1]
    assert "num_hidden_layers is 3,000,000, above the bound of 1,024" in last, done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("name", ["stride", "template", "prefix", "charsmap", "charsmap short"])
def test_a_tokenizer_whose_rust_code_panics_is_told_in_one_line(name: str, folder: Path) -> None:
    _merge("tokenizer.json", PANICS[name], folder)
    try:
        policy = loading.load_policy(ModelConfig(name=str(folder)))
    except UserError as error:
        assert "\n" not in str(error)
    else:
        policy.encode_prompt("?")


@pytest.mark.parametrize("name", ["pieces of none", "second sequence", "unigram without"])
def test_a_text_at_which_a_tokenizer_panics_is_left_out(
    name: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = loading.load_policy(ModelConfig(name="rare"))
    _merge("tokenizer.json", PANICS[name], folder)
    from transformers import PreTrainedTokenizerFast

    honest = policy.tokenizer
    policy.tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))
    policy.tokenizer.chat_template = honest.chat_template
    policy.encode_prompt("zz?")
    assert policy.encode_completion("zz?", ended=True) == []
    assert isinstance(policy.encode_observations(["zz?"], 3), list)
    assert capsys.readouterr().err.count("such texts are skipped") == 1


def test_a_tokenizer_that_panics_at_what_the_model_generates_ends_in_one_line(folder: Path) -> None:
    policy = loading.load_policy(ModelConfig(name="rare"))
    _merge("tokenizer.json", PANICS["strips"], folder)
    from transformers import PreTrainedTokenizerFast

    policy.tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))
    with pytest.raises(UserError, match="cannot write out what the model generates") as raised:
        policy.decode([policy.tokenizer.convert_tokens_to_ids(["a"])])
    assert "\n" not in str(raised.value)


def test_a_file_that_is_no_json_is_told_in_a_few_words(tmp_path: Path) -> None:
    for content in (b"[" * 100_000, b"9" * 5000, b"\xff", b"", b"[]", b" " * (5 << 20)):
        (tmp_path / "config.json").write_bytes(content)
        with pytest.raises(TooLarge) as raised:
            bounds.check_folder(tmp_path)
        assert len(str(raised.value)) < 200
