"""The present code does what the release did, and the comparison finds differences."""

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

from lab.benchmarks.compatibility import ROOT, NoHistory, compare, take_out


def test_a_value_that_differs_in_its_last_bit_is_a_difference() -> None:
    release = {"arms": {"4/4": {"rewards": [[0.1, 0.2]], "gain": None}}, "rounds": 2}
    almost = {"arms": {"4/4": {"rewards": [[0.1, math.nextafter(0.2, 1.0)]], "gain": None}}, "rounds": 2}
    assert compare(release, release).differences == []
    assert compare(release, almost).differences == ["arms.4/4.rewards differs"]
    assert compare(release, {**release, "rounds": 2.0}).differences == ["rounds differs"]


def test_keys_may_be_added_and_none_may_go() -> None:
    release = {"rounds": 2, "skipped": {}, "cost": {"4/4": {"seconds": [1.0]}}}
    found = compare(release, {**release, "skipped": {}, "metrics": {"loss": 1.0}})
    assert (found.added, found.differences) == (("metrics.loss",), [])
    assert compare(release, {"skipped": {}, "cost": {"4/4": {}}}).differences == [
        "rounds is missing",
        "cost.4/4.seconds is missing",
    ]


def test_of_cost_only_the_names_are_compared() -> None:
    one, other = ({"cost": {"4/4": {"seconds": [seconds]}}} for seconds in (1.0, 2.0))
    assert compare(one, other).differences == []


def test_without_the_history_one_line_says_to_fetch_it(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    with pytest.raises(NoHistory, match=r"^git has no v0\.1\.0: fetch it by `git fetch --tags --unshallow`.*$"):
        take_out("v0.1.0", tmp_path / "code", root=tmp_path)


@pytest.mark.slow
def test_without_the_tag_the_release_is_found_by_its_commit(tmp_path: Path) -> None:
    clone = ["git", "clone", "--quiet", "--bare", "--no-tags", "--shared", ROOT, tmp_path / "clone"]
    subprocess.run(clone, check=True)
    (tmp_path / "code").mkdir()
    take_out("v0.1.0", tmp_path / "code", root=tmp_path / "clone")
    assert (tmp_path / "code" / "swarm_node" / "keeping.py").is_file()  # which is elsewhere now


@pytest.mark.slow
def test_the_present_code_does_what_the_release_did_bit_for_bit() -> None:
    words = [sys.executable, "-m", "lab.benchmarks.compatibility", "--quick", "--json"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=800, check=False)
    if done.returncode:
        pytest.fail(f"{done.stdout}{done.stderr}".strip(), pytrace=False)
    result = json.loads(done.stdout.splitlines()[-1])
    assert (result["benchmark"], result["differences"]) == ("compatibility", [])
    assert len(result["runs"]) >= 3 and all(run["same"] > 20 for run in result["runs"].values())
    assert result["ratio"] > 0
