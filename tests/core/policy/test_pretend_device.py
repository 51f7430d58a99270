"""The code that a card runs, on a device that raises where host and device are mixed."""

import json
import subprocess
from pathlib import Path

import pytest

from tests import preloaded
from tests.pretend_runs import WITH_FLOAT64

ROOT = Path(__file__).parents[3]
LENGTH, GROUPS = 18, [4, 4, 4]


def run(*flags: str) -> dict:
    words = [*preloaded.python(), "-m", "tests.pretend", *flags]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def found() -> dict:
    return run()


@pytest.mark.slow
def test_tensors_of_host_and_device_that_are_mixed_raise(found) -> None:
    assert "cpu" in found.pop("mixed")["failed"]
    assert {name: each for name, each in found.items() if "failed" in each} == {} and len(
        found
    ) == 13


@pytest.mark.slow
def test_generation_waits_once_for_a_block(found) -> None:
    for name in (
        "LlamaDecoder",
        "ModelDecoder",
        "LlamaDecoder bfloat16",
        "LlamaDecoder LoRA",
        "ModelDecoder LoRA",
    ):
        result, waits = found[f"generate {name}"]["result"], found[f"generate {name}"]["waits"]
        blocks, at_the_end = 3, 3  # blocks of 1, 16 and 1 tokens; then texts, log-probs and lengths
        assert result == GROUPS
        assert waits == {"on_host": blocks + at_the_end}, name


@pytest.mark.slow
def test_steps_are_recorded_in_the_first_rounds_alone(found) -> None:
    after_two, after_twenty = found["recordings"]["result"]
    assert 1 <= after_two == after_twenty


@pytest.mark.slow
def test_training_and_a_resume_take_their_steps(found) -> None:
    steps = {
        name: each["result"]
        for name, each in found.items()
        if name.startswith("train ") or name == "resume"
    }
    assert steps == {**{name: 2 for name in steps}, "resume": 1} and len(steps) == 4


@pytest.mark.slow
def test_an_update_waits_as_often_with_one_micro_batch_as_with_many(found) -> None:
    (one, waits), (many, as_many) = found["micro-batches"]["result"]
    assert one == 1 and many >= 3 and as_many == waits


@pytest.mark.slow
def test_a_device_without_float64_as_apples_generates_and_trains() -> None:
    found = run("--without-float64")
    assert {name: each for name, each in found.items() if "failed" in each} == {}
    assert [*found] == [*WITH_FLOAT64]
