"""The frozen base of LoRA in float32: one copy for all nodes of a machine, and the same numbers as each node's own."""

import errno
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from swarm_node.generation.generator import BatchGenerator
from swarm_node.policy import named
from swarm_node.policy.loading import load_policy
from swarm_node.policy.policy import Policy
from swarm_node.settings import GenerationConfig, ModelConfig
from tests.gradients import gradients
from tests.models import characters, tiny_model, weights_of

NAME = "smollm2-135m"
LOADS = """
import sys
from swarm_node.policy.loading import load_policy
from swarm_node.settings import ModelConfig
policy = load_policy(ModelConfig(name="smollm2-135m", lora_rank=2, device="cpu"))
print("loaded", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def place(tmp_path, monkeypatch) -> Path:
    """A model in bfloat16 in the cache, of 16 MB in float32."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("sys.prefix", str(tmp_path / "no image"))
    folder = named.folder(NAME)
    model = tiny_model(tie_word_embeddings=True, hidden_size=256, intermediate_size=1024, num_hidden_layers=4)
    model.to(torch.bfloat16).save_pretrained(folder)
    characters().save_pretrained(folder)
    return folder


def load(name: object = NAME) -> Policy:
    torch.manual_seed(0)  # of the adapters
    return load_policy(ModelConfig(name=str(name), lora_rank=2, device="cpu"))


def copy_of(place: Path) -> Path:
    return place.with_name(f"{NAME}.float32")


def mapped(pid: int, file: Path) -> dict[str, int]:
    """kB by kind, of what this process has mapped from this file."""
    _, _, rest = Path(f"/proc/{pid}/smaps").read_text().partition(f" {file}\n")
    return {kind: int(size) for kind, size in re.findall(r"^(\w+): +(\d+) kB", rest.partition("VmFlags")[0], re.M)}


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_two_nodes_that_start_together_hold_one_base(place) -> None:
    pipe = subprocess.PIPE
    nodes = [subprocess.Popen([sys.executable, "-c", LOADS], stdin=pipe, stdout=pipe, text=True) for _ in range(2)]
    try:
        assert [node.stdout.readline() for node in nodes] == ["loaded\n"] * 2
        size = copy_of(place).stat().st_size // 1024
        for node in nodes:
            found = mapped(node.pid, copy_of(place))
            assert found["Rss"] >= size
            assert found["Pss"] <= 0.6 * size
            assert not found["Private_Dirty"] and not found["Anonymous"]
    finally:
        for node in nodes:
            node.kill()
            node.communicate()
    assert sorted(path.name for path in place.parent.iterdir()) == [f".{NAME}.lock", NAME, f"{NAME}.float32"]


def test_tokens_and_gradients_are_those_of_a_base_of_its_own(place, tmp_path) -> None:
    own = place.rename(tmp_path / "own")
    place.symlink_to(own)  # as where the hub's cache has it
    found = []
    for policy in (load(own), load(), load()):
        config = GenerationConfig(num_generations=4, max_completion_length=8)
        found.append((BatchGenerator(policy, config).generate(["1+1=", "2"], 4, "s"), gradients(policy, None, 1.0)))
    assert copy_of(place).exists() and not (tmp_path / "own.float32").exists()
    for tokens, values in found[1:]:
        assert tokens == found[0][0]
        assert all(map(torch.equal, values, found[0][1]))


def test_a_change_of_a_weight_does_not_reach_the_file(place) -> None:
    with torch.no_grad():
        for weight in load().model.parameters():
            weight.zero_()
    assert any(bool(weight.any()) for weight in weights_of(load().model.get_base_model()))


@pytest.mark.parametrize("damage", ["cut off", "other weights", "another model"])
def test_a_file_that_is_not_the_base_is_written_anew(place, damage) -> None:
    wanted, file = weights_of(load().model), copy_of(place)
    content = file.read_bytes()
    if damage == "another model":
        tiny_model(hidden_size=256, tie_word_embeddings=True, intermediate_size=512).save_pretrained(place)
        load()
    else:
        file.write_bytes(content[:-100] if damage == "cut off" else content[:-1000] + bytes(1000))
        assert all(map(torch.equal, weights_of(load().model), wanted))
    assert (file.read_bytes() == content) == (damage != "another model")


def test_where_there_is_no_room_each_node_has_its_own_and_says_so(place, monkeypatch, capsys) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("swarm_node.policy.weights.os.replace", full)
    assert any(bool(weight.any()) for weight in weights_of(load().model))
    said = capsys.readouterr().err.strip()
    assert "No space left" in said and "\n" not in said
    assert not copy_of(place).exists() and not list(place.parent.glob("*.part"))


@pytest.mark.parametrize("options", [{"lora_rank": 0}, {"lora_rank": 2, "dtype": "bfloat16"}])
def test_only_a_base_in_float32_that_nobody_trains_is_copied(place, options) -> None:
    load_policy(ModelConfig(name=NAME, device="cpu", **options))
    assert not copy_of(place).exists()
