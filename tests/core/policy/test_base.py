"""The frozen base of LoRA in float32: one copy for all nodes of a machine, and the same numbers as
each node's own.
"""

import errno
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
import torch

from swarm_node.generation.generator import BatchGenerator
from swarm_node.policy import named
from swarm_node.policy.llama.llama_decoder import LlamaDecoder
from swarm_node.policy.loading import load_policy
from swarm_node.policy.policy import Policy
from swarm_node.settings import GenerationConfig, ModelConfig
from tests.gradients import gradients
from tests.models import characters, tiny_model, weights_of

NAME = "smollm2-135m"
LOADS = "from tests.core.policy.test_base import load; policy = load(); input('loaded\\n')"


@pytest.fixture
def file(tmp_path, monkeypatch) -> Path:
    """The file for the float32 base, 16 MB, of a bfloat16 model in the cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("sys.prefix", str(tmp_path / "no image"))
    folder = named.folder(NAME)
    model = tiny_model(
        tie_word_embeddings=True, hidden_size=256, intermediate_size=1024, num_hidden_layers=4
    )
    model.to(torch.bfloat16).save_pretrained(folder)
    characters().save_pretrained(folder)
    return folder.with_name(f"{NAME}.float32")


def load(name: object = NAME, **options) -> Policy:
    torch.manual_seed(0)  # for the adapters
    return load_policy(
        ModelConfig(**{"name": str(name), "lora_rank": 2, "device": "cpu", **options})
    )


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_two_nodes_that_start_together_hold_one_base(file) -> None:
    pipe = subprocess.PIPE
    nodes = [
        subprocess.Popen([sys.executable, "-c", LOADS], stdin=pipe, stdout=pipe, text=True)
        for _ in range(2)
    ]
    try:
        assert [node.stdout.readline() for node in nodes] == ["loaded\n"] * 2
        for node in nodes:
            (found,) = (
                one for one in psutil.Process(node.pid).memory_maps() if one.path == str(file)
            )
            assert found.rss >= file.stat().st_size and found.pss <= 0.6 * found.rss
            assert not found.private_dirty and not found.anonymous
    finally:
        for node in nodes:
            node.communicate("\n")
    assert sorted(path.name for path in file.parent.iterdir()) == [f".{NAME}.lock", NAME, file.name]


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_base_is_not_held_beside_a_copy_of_it(file) -> None:
    policy, held = (
        load(),
        lambda: sum(x.rss for x in psutil.Process().memory_maps() if x.path == str(file)),
    )
    assert held() >= file.stat().st_size
    LlamaDecoder(policy)
    assert held() == 0


def test_tokens_and_gradients_are_those_of_a_base_of_its_own(file, tmp_path) -> None:
    own = file.with_name(NAME).rename(tmp_path / "own")
    file.with_name(NAME).symlink_to(own)  # as in the hub's cache
    found = []
    for policy in (load(own), load(), load()):
        config = GenerationConfig(num_generations=4, max_completion_length=8)
        found.append(
            (
                BatchGenerator(policy, config).generate(["1+1=", "2"], 4, "s"),
                gradients(policy, None, 1.0),
            )
        )
    assert file.exists() and not (tmp_path / "own.float32").exists()
    for tokens, values in found[1:]:
        assert tokens == found[0][0] and all(map(torch.equal, values, found[0][1]))


@pytest.mark.parametrize("damage", ["none", "cut off", "other weights"])
def test_a_file_that_is_not_the_base_is_written_anew_and_a_change_does_not_reach_it(
    file, damage
) -> None:
    policy = load()
    wanted, content = [weight.clone() for weight in weights_of(policy.model)], file.read_bytes()
    with torch.no_grad():
        for weight in policy.model.parameters():
            weight.zero_()
    if damage != "none":
        file.write_bytes(content[:-100] if damage == "cut off" else content[:-1000] + bytes(1000))
    assert all(map(torch.equal, weights_of(load().model), wanted)) and file.read_bytes() == content


def test_where_there_is_no_room_each_node_has_its_own_and_says_so(
    file, monkeypatch, capsys
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("os.replace", full)
    assert any(bool(weight.any()) for weight in weights_of(load().model))
    assert "No space left" in capsys.readouterr().err
    assert not file.exists() and not list(file.parent.glob("*.part"))


@pytest.mark.parametrize("options", [{"lora_rank": 0}, {"dtype": "bfloat16"}])
def test_only_a_base_in_float32_that_nobody_trains_is_copied(file, options) -> None:
    load(**options)
    assert not file.exists()
