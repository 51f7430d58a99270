"""A trained model leaves the home: as a folder, and to a hub that stands in on loopback."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer

from swarm_node import starters
from tests.commands import ended, ended_well
from tests.hub_stand_in import COMMIT, TOKEN, Hub, hub_on_loopback

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

ROOT = Path(__file__).parents[3]
HOME = ROOT / "tests" / "data" / "home"
LOGITS = """
import sys
from tests.core.hub.test_hub import logits
print(logits(sys.argv[1]))
"""
FEW = ["--generation.num-generations", 4, "--round.questions", 3, "--environment.tasks", "gcd/tiny"]


def environment(hub: Hub, folder: Path, token: str = TOKEN) -> dict[str, str]:
    """The environment of a fresh process that knows no hub but this one, and has an empty cache."""
    known = {
        "HF_ENDPOINT": hub.address,
        "HF_HUB_OFFLINE": "0",
        "HF_HOME": str(folder / "hf"),
        "HF_TOKEN": token,
    }
    return {**os.environ, **known, "HF_HUB_DISABLE_XET": "1"}


def logits(name: object) -> list[float]:
    """The first 8 logits after "1 + 1", of a model or of a base model "+" its adapters."""
    base, _, adapters = str(name).partition("+")
    model, tokenizer = (
        AutoModelForCausalLM.from_pretrained(base),
        AutoTokenizer.from_pretrained(base),
    )
    if adapters:
        from peft import PeftModel

        model = PeftModel.from_pretrained(model, adapters)
    found: list[float] = model(**tokenizer("1 + 1", return_tensors="pt")).logits[0, -1, :8].tolist()
    return found


def test_an_exported_model_is_what_was_trained_and_says_where_it_is_from(tmp_path: Path) -> None:
    out = tmp_path / "model"
    ended_well("model", "export", out, "--home", HOME)
    (checkpoint,) = (HOME / "checkpoints").iterdir()
    names = {file.name for file in out.iterdir()}
    assert {"model.safetensors", "tokenizer.json", "generation_config.json", "README.md"} <= names
    assert not names & {"state.json", "optimizer.safetensors"}
    card = (out / "README.md").read_text()
    assert "45 rounds" in card and "swarm: " in card and "Mean reward of local completions" in card
    assert logits(out) == logits(checkpoint)
    again = ended("model", "export", out, "--home", HOME)
    assert again.returncode == 2 and "is not empty" in again.stderr
    merged = ended("model", "export", tmp_path / "merged", "--home", HOME, "--merge")
    assert (
        merged.returncode == 2
        and "no adapters" in merged.stderr
        and not (tmp_path / "merged").exists()
    )


def test_merged_adapters_compute_what_base_and_adapters_did(tmp_path: Path) -> None:
    home = tmp_path / "home"
    lora = ["--model.lora-rank", 4, "--network.no-enabled", "--max-rounds", 2, *FEW]
    done = ended_well("run", "--home", home, *lora)
    done = ended("model", "export", tmp_path / "adapters", "--home", home)
    assert done.returncode == 0 and "peft.PeftModel.from_pretrained" in done.stdout, done
    assert (tmp_path / "adapters" / "adapter_model.safetensors").exists()
    assert "LoRA adapters of rank 4" in (tmp_path / "adapters" / "README.md").read_text()
    assert "its licence: mit" in (tmp_path / "adapters" / "README.md").read_text()
    done = ended_well("model", "export", tmp_path / "merged", "--home", home, "--merge", "--gguf")
    assert (tmp_path / "merged" / "model.gguf").read_bytes()[:4] == b"GGUF"
    assert not (tmp_path / "merged" / "adapter_model.safetensors").exists()
    adapted = logits(f"{starters.folder('rare')}+{tmp_path / 'adapters'}")
    # Merging adds in another order
    assert logits(tmp_path / "merged") == pytest.approx(adapted, abs=1e-3)
    places = (str(tmp_path), str(starters.folder("rare")), str(Path.home()), str(Path.cwd()))
    for file in [*(tmp_path / "adapters").iterdir(), *(tmp_path / "merged").iterdir()]:
        content = file.read_bytes()
        assert not [place for place in places if len(place) > 1 and place.encode() in content], file


def test_a_pushed_model_is_private_and_opens_in_a_fresh_process(tmp_path: Path) -> None:
    with hub_on_loopback() as hub:
        env = environment(hub, tmp_path)
        ended_well("model", "push", "me/model", "--home", HOME, env=env)
        assert hub.private == {"me/model": True}
        assert (
            "model.safetensors" in hub.files["me/model"]
            and "state.json" not in hub.files["me/model"]
        )
        (checkpoint,) = (HOME / "checkpoints").iterdir()
        fresh = [sys.executable, "-c", LOGITS, "me/model"]
        opened = subprocess.run(
            fresh, capture_output=True, text=True, cwd=ROOT, env=env, check=False
        )
        assert opened.returncode == 0, opened.stderr
        assert json.loads(opened.stdout) == logits(checkpoint)


def test_a_model_of_the_hub_is_taken_by_revision_and_kept_to_its_commit(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (checkpoint,) = (HOME / "checkpoints").iterdir()
    run = [
        "run",
        "--home",
        home,
        "--model.name",
        "me/model",
        "--network.no-enabled",
        "--model.lora-rank",
        2,
        *FEW,
    ]
    with hub_on_loopback() as hub:
        env = environment(hub, tmp_path)
        files = [
            file
            for file in checkpoint.iterdir()
            if file.name not in ("state.json", "optimizer.safetensors")
        ]
        hub.files["me/model"] = {file.name: file.read_bytes() for file in files}
        done = ended_well(*run, "--model.revision", "v1", "--max-rounds", 1, env=env)
        assert ("v1", "config.json") in hub.asked and ("main", "model.safetensors") not in hub.asked
        (kept,) = (home / "checkpoints").iterdir()
        assert json.loads((kept / "state.json").read_text())["extra"]["model"]["revision"] == COMMIT
        hub.asked.clear()
        # The same home: it keeps its commit, whatever main is now
        done = ended(*run, "--max-rounds", 2, env=env)
        assert done.returncode == 0, done.stderr
        assert (COMMIT, "config.json") in hub.asked and (
            "main",
            "model.safetensors",
        ) not in hub.asked
        other = ended(*run, "--model.revision", "1" * 40, "--max-rounds", 3, env=env)
    assert other.returncode == 2 and f"model.revision {COMMIT!r}" in other.stderr
    ended_well("model", "export", tmp_path / "out", "--home", home)
    assert f"base model: me/model at {COMMIT}" in (tmp_path / "out" / "README.md").read_text()


@pytest.mark.parametrize(("token", "status"), [("hf_wrong", 0), (TOKEN, 503)])
def test_a_hub_that_refuses_is_one_line_without_the_token(
    tmp_path: Path, token: str, status: int
) -> None:
    with hub_on_loopback() as hub:
        hub.refuse = status
        done = ended(
            "model", "push", "me/model", "--home", HOME, env=environment(hub, tmp_path, token)
        )
    assert done.returncode == 2 and len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert token not in done.stderr + done.stdout
