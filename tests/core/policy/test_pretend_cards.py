"""The models of a first run on a card, in their real widths, on a device that computes nothing."""

import json
import subprocess
from pathlib import Path

import pytest

from swarm_node.policy.by_card import CHOICES
from tests import preloaded

ROOT = Path(__file__).parents[3]


@pytest.mark.slow
def test_each_model_for_a_card_writes_and_trains_in_its_real_width() -> None:
    words = [*preloaded.python(), "-m", "tests.pretend_cards"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert {*found} == {choice.model.name for choice in CHOICES}
    for choice in CHOICES:
        of_model = found[choice.model.name]
        assert "failed" not in of_model, of_model
        assert (of_model["written"], of_model["steps"]) == ([2, 2], 1)
        # Two of its blocks, and all of its embedding
        assert 0.05 < of_model["weights"] / choice.model.weights < 0.5
