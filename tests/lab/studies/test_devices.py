"""The study of rewards on two devices, run as a user runs it, on few rounds."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("scipy", reason="extra studies")


@pytest.mark.slow
def test_a_node_on_two_devices_begins_as_one_on_one_and_both_ends_are_compared(
    tmp_path: Path,
) -> None:
    line = [sys.executable, "-m", "lab.studies.devices", "--quick", "--json", "--runs", tmp_path]
    done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert (found["benchmark"], found["seeds"], found["wrong"]) == ("devices", 1, [])
    assert len(found["one"]) == len(found["two"]) == 1
    events = (tmp_path / "shared" / "0" / "events.jsonl").read_text()
    assert "cpu, cpu" in events, "the second node did run on two devices"
