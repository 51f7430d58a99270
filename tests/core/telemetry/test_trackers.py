"""Trackers of other projects, through the class that calls them, and trackio itself where it is
installed.
"""

import json
import os
import sqlite3
from collections.abc import Mapping
from dataclasses import fields
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from swarm_node.common.errors import UserError
from swarm_node.rollouts.groups import METRICS
from swarm_node.telemetry.events import Validated
from swarm_node.telemetry.simulated import CellFinished, CellRound
from swarm_node.telemetry.trackers.trackers import Run, Tracker, library, named
from tests.commands import python


class Kept:
    def __init__(self) -> None:
        self.rows: list[tuple[int, dict[str, float]]] = []
        self.finished = False

    def log(self, values: Mapping[str, float], step: int) -> None:
        self.rows.append((step, dict(values)))

    def finish(self) -> None:
        self.finished = True


class Keeping(Tracker):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.kept: dict[str, Kept] = {}

    def begin(self, name: str) -> Run:
        self.kept[name] = Kept()
        return self.kept[name]


def cell(arm: str, seed: int, number: int) -> CellRound:
    facts: dict[str, Any] = dict.fromkeys((each.name for each in fields(CellRound)), 0)
    facts |= {"arm": arm, "seed": seed, "round": number, "metrics": dict.fromkeys(METRICS, 1.0)}
    return CellRound(**facts)


def test_a_simulation_is_a_run_for_each_arm_and_seed(tmp_path: Path) -> None:
    tracker = Keeping(tmp_path)
    for number in range(2):
        for arm, seed in (("2/0", 0), ("1/1", 0), ("1/1", 1)):
            tracker.take(cell(arm, seed, number))
    tracker.take(CellFinished("2/0", 0, 1.0))
    assert [name for name, run in tracker.kept.items() if run.finished] == ["2/0 seed 0"]
    tracker.close()
    assert list(tracker.kept) == ["2/0 seed 0", "1/1 seed 0", "1/1 seed 1"]
    assert all(
        run.finished and [step for step, _ in run.rows] == [0, 1] for run in tracker.kept.values()
    )


def test_a_node_is_one_run_with_the_names_of_trl(tmp_path: Path) -> None:
    tracker = Keeping(tmp_path / "home")
    tracker.take(Validated(5, 0.5, 4, True))
    assert tracker.kept["home"].rows == [(5, {"eval/reward": 0.5})]
    assert {"reward", "loss", "grad_norm", "completions/mean_length"} <= named(
        dict.fromkeys(METRICS, 0.0)
    ).keys()
    assert named({"reward": None, "loss": 0.0}) == {"loss": 0.0}, "what a round has not is left out"


def test_a_library_that_is_missing_is_one_line_with_a_remedy() -> None:
    with pytest.raises(UserError, match="pip install it"):
        library("no_such_library", "pip install it")


@pytest.mark.slow
@pytest.mark.skipif(find_spec("trackio") is None, reason="needs the extra trackio")
def test_trackio_keeps_the_figures_in_the_folder_of_the_run(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from swarm_node.telemetry.trackers.trackers "
        "import TrackioTracker;"
        "from tests.core.telemetry.test_trackers import cell;"
        "tracker = TrackioTracker(Path(sys.argv[1]));"
        "[tracker.take(cell(arm, 0, number)) for number in range(3) for arm in ('2/0', '1/1')]; "
        "tracker.close()"
    )
    ours = {name: value for name, value in os.environ.items() if name != "TRACKIO_DIR"}
    done = python("-c", program, tmp_path, cwd=Path(__file__).parents[3], env=ours)
    assert done.returncode == 0, done.stdout + done.stderr
    (database,) = (tmp_path / "trackio").glob("*.db")
    rows = (
        sqlite3.connect(database).execute("select run_name, step, metrics from metrics").fetchall()
    )
    assert {(run, step) for run, step, _ in rows} == {
        (f"{arm} seed 0", k) for arm in ("2/0", "1/1") for k in range(3)
    }
    assert json.loads(rows[0][2])["reward"] == 1.0
