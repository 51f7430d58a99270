"""What `lab.studies.unchanged` takes for a difference, and what it runs."""

import json
from pathlib import Path

import pytest

from lab.benchmarks.earlier import is_here
from lab.studies import unchanged
from lab.studies.unchanged import MISSING, Side, comparable, compared, differences, whole_name

REPORT = {
    "seeds": [0],
    "arms": {"2/2:sft": {"mean": 1.0, "skipped": {}, "rewards": [[1.0, 2.0]]}},
    "cost": {"2/2:sft": 7.5},
}


def test_what_a_report_cost_and_the_old_name_of_an_arm_are_no_difference() -> None:
    later = {**REPORT, "cost": {"2/2:imitation": 9.0}}
    later["arms"] = {"2/2:imitation": REPORT["arms"]["2/2:sft"]}
    assert list(differences(comparable(REPORT), comparable(later))) == []


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("mean", 1.0000000000000002, [("report.mean", 1.0, 1.0000000000000002)]),
        ("mean", 1, [("report.mean", 1.0, 1)]),
        ("skipped", {"hung": 1}, [("report.skipped.hung", MISSING, 1)]),
        ("rewards", [[1.0]], [("report.rewards[0][1]", 2.0, MISSING)]),
        ("rewards", [[1.0, 2.0], []], [("report.rewards[1]", MISSING, [])]),
    ],
)
def test_every_other_difference_is_named_by_its_place(
    key: str, value: object, expected: list[object]
) -> None:
    arm = REPORT["arms"]["2/2:sft"]
    assert list(differences(arm, {**arm, key: value})) == expected


def test_a_name_that_is_no_commit_ends_it_in_one_line() -> None:
    with pytest.raises(SystemExit, match="no-such: the repository has no commit of this name"):
        whole_name("no-such")


@pytest.mark.slow
@pytest.mark.skipif(not is_here("HEAD"), reason="this is no clone of the repository")
def test_a_swarm_is_simulated_once_for_each_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unchanged, "COMMON", ("--rounds", "1", "--workers", "1", "--threads", "1"))
    monkeypatch.setattr(unchanged, "SWARMS", {"small": ("--nodes", "1", "--arms", "1/0")})
    side = Side(whole_name("HEAD"), tmp_path)
    assert compared(side, side, seeds=2, at_most=0) == {}
    assert compared(side, side, seeds=2, at_most=1) == {"small": []}
    assert compared(side, side, seeds=2, at_most=0) == {"small": []}, "it is kept"
    assert side.report("small", 2)["seeds"] == [0, 1]
    manifest = json.loads((tmp_path / side.commit / "small_2" / "manifest.json").read_bytes())
    assert manifest["config"]["nodes"] == 1
