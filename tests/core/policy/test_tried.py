"""The trials with a model run once on a machine; a damaged file costs the trials again, and one
line.
"""

import json
import os
from pathlib import Path

import pytest
import torch

from swarm_node.generation import generator
from swarm_node.generation.generator import choose_decoder
from swarm_node.policy import tried as module
from swarm_node.policy.policy import Policy
from swarm_node.policy.tried import FILE, Tried
from tests.models import characters, tiny_model, tiny_policy


@pytest.fixture
def trials(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the trials that run from now on."""
    done: list[str] = []
    agrees, rows = generator.agrees, Policy._agrees

    def decoder(candidate: type, policy: Policy) -> bool | None:
        done.append(candidate.__name__)
        return agrees(candidate, policy)

    def packing(policy: Policy, way, packed, reference) -> bool | None:
        done.append(way.name)
        return rows(policy, way, packed, reference)

    monkeypatch.setattr(generator, "agrees", decoder)
    monkeypatch.setattr(Policy, "_agrees", packing)
    return done


def probe(policy: Policy, home: Path) -> tuple[object, object, list[str]]:
    said: list[str] = []
    policy.tried = Tried(home / FILE, said.append)
    return choose_decoder(policy, "auto"), policy.packing, said


@pytest.mark.parametrize("family", ["Llama", "GPTNeoX"])
def test_a_second_start_tries_nothing_that_was_found_out(family, tmp_path, trials) -> None:
    first = probe(tiny_policy(family), tmp_path)
    tried, trials[:] = list(trials), []
    assert tried
    again = probe(tiny_policy(family, seed=1), tmp_path)  # other weights, as after a resume
    assert again == first
    refused_at_once = {"NATIVE", "LlamaDecoder"} if family == "GPTNeoX" else set()
    assert set(trials) <= refused_at_once  # without a forward pass
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600


def test_another_model_device_or_code_is_tried_anew(tmp_path, trials, monkeypatch) -> None:
    probe(tiny_policy(), tmp_path)
    for change in (
        lambda: tiny_policy(num_hidden_layers=3),
        lambda: tiny_policy(autocast=torch.bfloat16),
        lambda: Policy(tiny_model(), characters(), torch.device("cpu"), name="another"),
    ):
        trials.clear()
        probe(change(), tmp_path)
        assert "LlamaDecoder" in trials
    for name, value in (
        ("code_digest", lambda: "another"),
        ("_described", lambda device: "another"),
    ):
        trials.clear()
        with monkeypatch.context() as patched:
            patched.setattr(module, name, value)
            probe(tiny_policy(), tmp_path)
        assert "LlamaDecoder" in trials
    trials.clear()
    probe(tiny_policy(), tmp_path)
    assert "LlamaDecoder" not in trials


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def lie(path: Path) -> None:
    """Inverts all answers without a new digest."""
    whole = json.loads(path.read_text())
    turned = {
        s: {name: not each for name, each in some.items()} for s, some in whole["answers"].items()
    }
    path.write_text(json.dumps(whole | {"answers": turned}))


DAMAGE = {
    "empty": lambda path: path.write_bytes(b""),
    "cut off": lambda path: path.write_bytes(path.read_bytes()[:-9]),
    "a list": lambda path: path.write_text("[]"),
    "no answers": lambda path: path.write_text('{"answers": 3, "digest": ""}'),
    "a text as answer": lambda path: path.write_text(signed({"x": {"y": "yes"}})),
    "too deep": lambda path: path.write_text("[" * 60_000),
    "too long": lambda path: path.write_bytes(path.read_bytes() + b" " * 200_000),
    "no text": lambda path: path.write_bytes(b"\xff\x00" * 99),
    "a number of 5,000 digits": lambda path: path.write_text('{"answers": ' + "9" * 5000 + "}"),
    "turned round": lie,
    "a pipe": pipe,
    "a folder": folder,
}


def signed(answers: object) -> str:
    return json.dumps({"answers": answers, "digest": module._digest(answers)})


@pytest.mark.parametrize("how", DAMAGE)
def test_a_damaged_file_costs_the_trials_and_one_line(how, tmp_path, trials) -> None:
    decoder, packing, said = probe(tiny_policy(), tmp_path)
    assert said == []
    DAMAGE[how](tmp_path / FILE)
    trials.clear()
    *found, said = probe(tiny_policy(), tmp_path)
    assert found == [decoder, packing]
    assert "LlamaDecoder" in trials
    (line,) = said
    assert "tries again" in line and "\n" not in line


def test_a_link_is_not_followed_and_a_full_folder_costs_nothing(tmp_path) -> None:
    other = tmp_path / "other"
    other.write_text("mine")
    (tmp_path / FILE).symlink_to(other)
    probe(tiny_policy(), tmp_path)
    assert other.read_text() == "mine"
    assert probe(tiny_policy(), tmp_path / "none")[0] is generator.LlamaDecoder


def test_a_failure_is_not_remembered(tmp_path) -> None:
    tried = Tried(tmp_path / FILE)
    assert not tried.ask("model", "decoder", lambda: None) and tried.ask(
        "model", "decoder", lambda: True
    )
    assert Tried(tmp_path / FILE).ask("model", "decoder", lambda: False)


def test_the_last_models_are_remembered_and_two_processes_lose_nothing(tmp_path) -> None:
    one, two = Tried(tmp_path / FILE), Tried(tmp_path / FILE)
    one.ask("a", "decoder", lambda: True)
    two.ask("b", "decoder", lambda: True)
    known = Tried(tmp_path / FILE)
    assert known.ask("a", "decoder", lambda: False) and known.ask("b", "decoder", lambda: False)
    for number in range(module.SUBJECTS):
        known.ask(str(number), "decoder", lambda: True)
    assert not Tried(tmp_path / FILE).ask("a", "decoder", lambda: False)
