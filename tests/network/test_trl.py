"""The TRL example beside two real nodes: each trains on groups of the other kind."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.network.test_nodes import address, learned, running
from tests.waiting import until

pytest.importorskip("trl")
pytestmark = [pytest.mark.network, pytest.mark.slow, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[2]
HERE = ("--network.host", "127.0.0.1", "--network.no-mdns", "--network.exchange-seconds", 2)
TASKS = ("--environment.tasks", "products/tiny,lcm/tiny,count_bits/tiny")


def test_a_trl_script_and_two_nodes_train_on_each_other(tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    few = ("--threads", 1, "--round.questions", 4, "--round.local-groups", 2, "--round.external-groups", 4)
    with running(a, "run", *few, *TASKS, *HERE):
        peer = address(a)
        with running(b, "run", *few, *TASKS, *HERE, "--peers", peer):
            environment = {**os.environ, "STEPS": "40", "HOST": "127.0.0.1", "MDNS_OFF": "1", "PYTHONPATH": str(ROOT)}
            script = [sys.executable, ROOT / "examples" / "trl" / "train.py", tmp_path / "trl", peer]
            done = subprocess.run(script, capture_output=True, text=True, env=environment, check=False, timeout=600)
            assert done.returncode == 0, done.stderr[-2000:]
            found = re.search(r"published (\d+) groups, trained on (\d+) external ones", done.stdout)
            assert found and int(found[1]) > 0 and int(found[2]) > 0, done.stdout[-500:]
            until(lambda: learned(a) and learned(b), 60, "learning")
