"""The benchmarks run from end to end on tiny sizes and print what the documentation promises. Speed
is not tested.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from swarm_node import starters
from swarm_node.common.children import usable_cores
from tests import preloaded

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]  # all run at once, before the first test
NAMES = ("fp8_gpu", "generation", "older", "replay", "step", "swarm", "update", "workers")
needs_starter = pytest.mark.skipif(
    not starters.folder("rare").is_dir(), reason="the starters have not been made"
)


@pytest.fixture(scope="module")
def runs() -> Iterator[dict[str, subprocess.Popen[str]]]:
    """Starts all benchmarks at once, as they spend most of their time importing."""
    started = {name: start(name) for name in NAMES}
    yield started
    for process in started.values():
        process.kill()
        process.communicate()


def start(name: str) -> subprocess.Popen[str]:
    command = [*preloaded.python(), "-m", f"lab.benchmarks.{name}", "--quick", "--json"]
    command += [".", "--python", sys.executable] if name == "older" else []
    command += [".", "--lora-rank", "4", "--count"] if name == "update" else []
    return subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


@pytest.fixture(scope="module")
def results(runs: dict[str, subprocess.Popen[str]]) -> dict[str, dict[str, Any]]:
    """The last line of each benchmark, parsed; missing where the benchmark failed."""
    parsed = {}
    for name, process in runs.items():
        output, errors = process.communicate(timeout=1500)
        if process.returncode == 0:
            parsed[name] = json.loads(output.splitlines()[-1])
        else:
            sys.stderr.write(errors)
    return parsed


@pytest.mark.parametrize("name", ["generation", "step"])
def test_last_line_holds_the_ratio_and_both_sides(
    results: dict[str, dict[str, Any]], name: str
) -> None:
    result = results[name]
    assert result["benchmark"] == name and result["ratio"] > 0
    assert (
        result["ours"]["tokens_per_cpu_second"] > 0
        and result["theirs"]["tokens_per_cpu_second"] > 0
    )
    assert min(result["settings"]["limits"].values()) > 0
    assert result["ratio"] == pytest.approx(
        result["theirs"]["cpu_seconds"]["median"] / result["ours"]["cpu_seconds"]["median"]
    )


def test_an_update_of_an_older_commit_takes_turns_with_ours_and_with_plain_products(
    results: dict[str, dict[str, Any]],
) -> None:
    found = results["update"]
    assert set(found["of_plain_products"]) == {"older", "ours", "plain products"}
    assert found["of_plain_products"]["plain products"] == 1.0
    assert found["counts"]["older"] == found["counts"]["ours"], "both are this commit"
    assert found["counts"]["ours"]["operators"] > 100


def test_an_older_commit_takes_turns_with_this_one(results: dict[str, dict[str, Any]]) -> None:
    sides = results["older"]["sides"]
    assert len(sides) == 6 and all(side["tokens_per_cpu_second"] > 0 for side in sides.values())


def test_what_is_meant_for_a_gpu_runs_to_its_end(results: dict[str, dict[str, Any]]) -> None:
    """On a machine without a GPU it runs on the CPU."""
    parts = results["fp8_gpu"]["results"]
    assert {what.split()[0] for what in parts} == {"products", "speed", "mismatch"}
    assert results["fp8_gpu"]["ratio"] > 0
    assert parts["mismatch fp8_rollout"]["kl_20"] > 7 * parts["mismatch fp8"]["kl_20"]


def test_honest_episodes_go_the_same_way_in_other_processes(
    results: dict[str, dict[str, Any]],
) -> None:
    result = results["replay"]
    assert (result["honest"] >= 200, result["diverged"], result["wire_bytes"] < 7000) == (
        True,
        0,
        True,
    )


@pytest.mark.skipif(usable_cores() < 2, reason="two workers need two cores")
def test_workers_are_timed_in_turn_and_one_of_them_is_killed_and_replaced(
    results: dict[str, dict[str, Any]],
) -> None:
    result = results["workers"]
    found = result["sizes"]["tiny"]
    assert result["ratio"] == pytest.approx(
        found["seconds"]["workers"] / found["seconds"]["one worker"]
    )
    assert len(found["seconds"]) == 3 and result["devices"] == ["cpu", "cpu"]
    busiest = found["busiest_seconds"]
    assert result["busiest_ratio"] == pytest.approx(busiest["workers"] / busiest["one worker"])
    assert all(busiest[name] > 0 for name in ("workers", "one worker"))
    after = found["after_a_kill"]
    assert 0 < after["round"] <= after["until_replaced"] and after["rounds_until_replaced"] >= 1


@needs_starter
def test_swarm_says_where_a_round_spends_its_time(results: dict[str, dict[str, Any]]) -> None:
    ours = results["swarm"]["ours"]
    assert set(ours["phases"]) == {"generate", "score", "exchange", "train"}
    assert 0 < sum(ours["phases"].values()) <= 1.5 * ours["seconds_per_round"]["max"]
