"""An export names no path of this machine, neither in a configuration nor in the model card."""

import json
from pathlib import Path
from typing import Any

import pytest

from swarm_node.common.errors import UserError
from swarm_node.hub.export import export, newest
from swarm_node.settings import ModelConfig
from tests.runs import line, round_done

DATA = Path(__file__).parents[2] / "data" / "home" / "checkpoints" / "00000045"
WHERE = "confidential-client"  # part of every path of this machine here


def home_of(tmp_path: Path, base: str, r: int, revision: str = "") -> Path:
    """A home with a checkpoint as peft and transformers write it, of the base model `base`."""
    home = tmp_path / WHERE / "home"
    checkpoint = home / "checkpoints" / "00000045"
    checkpoint.mkdir(parents=True)
    state = json.loads((DATA / "state.json").read_text())
    model = ModelConfig(name=base, revision=revision).model_dump(mode="json")
    model["lora_rank"] = r
    state["extra"]["model"] = model
    (checkpoint / "state.json").write_text(json.dumps(state))
    adapters = {"base_model_name_or_path": base, "r": r, "peft_type": "LORA", "revision": None}
    (checkpoint / "adapter_config.json").write_text(json.dumps(adapters))
    tokens = {
        "name_or_path": base,
        "special_tokens_map_file": f"/home/{WHERE}/.cache/tokens.json",
        "eos": "</s>",
    }
    (checkpoint / "tokenizer_config.json").write_text(
        json.dumps({**tokens, "nested": {"_name_or_path": base}})
    )
    (checkpoint / "config.json").write_text(
        json.dumps({"_name_or_path": base, "model_type": "llama"})
    )
    (checkpoint / "tokenizer.json").write_text(json.dumps({"model": {"vocab": {"/usr/lib/x": 1}}}))
    questions = {"file": f"{WHERE}/questions.jsonl"}
    config = {"swarm": "public", "dataset": questions, "training": {"learning_rate": 2e-4}}
    config |= {"generation": {"max_completion_length": 24}}
    versions = {"swarm-node": "0.3.0", "peft": "0.21.2", "numpy": "2.4.6"}
    (home / "manifest.json").write_text(json.dumps({"config": config, "versions": versions}))
    return home


def rounds(home: Path, *external: int, **fields: Any) -> None:
    """Events of rounds that trained on so many external groups."""
    done = [
        round_done(number, external_informative=count, **fields)
        for number, count in enumerate(external)
    ]
    (home / "events.jsonl").write_text("".join(map(line, done)))


def test_adapters_keep_the_name_of_a_model_of_the_hub_and_their_card_says_how_they_were_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    home = home_of(tmp_path, "org/model", 4, revision="0" * 40)
    rounds(home, 0, 3)
    assert not export(home, newest(home), tmp_path / "out").apart
    config = json.loads((tmp_path / "out" / "adapter_config.json").read_text())
    assert config["base_model_name_or_path"] == "org/model"
    card = (tmp_path / "out" / "README.md").read_text()
    for words in (
        "library_name: peft", "base_model: org/model", "base_model_relation: adapter",
        "learning rate 0.0002", "at most 24 tokens", "environment: reasoning_gym",
        "swarm-node 0.3.0", "peft 0.21.2",
        "local and external completions", "3 informative external groups", (
            "External completions are text"
        ),
    ):  # fmt: skip
        assert words in card, words
    assert WHERE not in card


def test_a_node_that_trained_alone_says_nothing_of_external_completions(tmp_path: Path) -> None:
    home = home_of(tmp_path, "org/model", 0, revision="0" * 40)
    rounds(home, 0, 0)
    export(home, newest(home), tmp_path / "out")
    card = (tmp_path / "out" / "README.md").read_text()
    assert "library_name: transformers" in card and "on local completions" in card
    assert "xternal" not in card, card


def test_a_lost_round_is_no_point_of_the_curve(tmp_path: Path) -> None:
    home = home_of(tmp_path, "org/model", 0, revision="0" * 40)
    with_reward = line(round_done(0, reward=0.5))
    (home / "events.jsonl").write_text(
        with_reward + line(round_done(1, reward=None, reward_by_task={}))
    )
    export(home, newest(home), tmp_path / "out")
    assert "| 0 to 0 | 0.500 |" in (tmp_path / "out" / "README.md").read_text()


@pytest.mark.parametrize("place", ["absolute", "relative", "of a home", "one folder"])
def test_an_export_has_no_path_of_this_machine(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / WHERE / "models" / "base").mkdir(parents=True)
    names = {
        "absolute": str(tmp_path / WHERE / "models" / "base"),
        "relative": f"{WHERE}/models/base",
        "of a home": f"~/{WHERE}/models/base",
        "one folder": f"{WHERE}/base",
    }
    (tmp_path / WHERE / "base").mkdir()
    home = home_of(tmp_path, names[place], 4)
    assert export(home, newest(home), tmp_path / "out").apart
    exported = {file.name: file.read_text() for file in (tmp_path / "out").iterdir()}
    for name, text in exported.items():
        assert WHERE not in text and str(tmp_path) not in text, name
    assert json.loads(exported["adapter_config.json"])["base_model_name_or_path"] == "base"
    assert json.loads(exported["tokenizer_config.json"])["special_tokens_map_file"] == "tokens.json"
    assert json.loads(exported["tokenizer_config.json"])["eos"] == "</s>"
    assert exported["tokenizer.json"] == (newest(home) / "tokenizer.json").read_text(), (
        "tokens are no paths"
    )
    assert (
        "base model: base;" in exported["README.md"] and "base_model:" not in exported["README.md"]
    )
    assert "questions.jsonl" in exported["README.md"]


def test_an_export_publishes_no_file_that_a_link_names(tmp_path: Path) -> None:
    checkpoint = tmp_path / "home" / "checkpoints" / "00000001"
    checkpoint.mkdir(parents=True)
    state = {"rounds": 1, "extra": {"model": {"name": "rare"}}}
    (checkpoint / "state.json").write_text(json.dumps(state))
    (tmp_path / "mine").write_text("mine")
    (checkpoint / "notes.txt").symlink_to(tmp_path / "mine")
    with pytest.raises(UserError, match="not a plain file"):
        export(tmp_path / "home", checkpoint, tmp_path / "out")
    assert not (tmp_path / "out").exists()
