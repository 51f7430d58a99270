"""Simulations take what users bring: a file of questions, and contributors among the nodes."""

import json
from pathlib import Path

import pytest

from tests.commands import ended

FILE = Path(__file__).parents[2] / "examples" / "questions" / "arithmetic.jsonl"
SMALL = ["--nodes", 2, "--rounds", 4, "--arms", "2/2", "--workers", 1, "--round.questions", 6]
MODELS = ["--node-models", "rarest", "dense", "--node-roles", "learner", "contributor"]


@pytest.mark.slow
def test_a_learner_trains_on_a_contributor_with_a_file_of_questions(tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = ended("simulate", *SMALL, *MODELS, "--dataset.file", FILE, "--out", out)
    assert done.returncode == 0, done.stderr
    arm = json.loads((out / "report.json").read_text())["arms"]["2/2"]
    assert sum(arm["metrics"]["external_informative"][0]) > 0
    assert arm["node_rewards"][0][1] == 0.0, "figures are of learners"
