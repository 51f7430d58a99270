"""Files of a run after a kill, on a full disk, and where something else lies in their place."""

import csv
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from swarm_node.common.errors import UserError
from swarm_node.extensions.trackers.observer import Trackers
from swarm_node.extensions.trackers.trackers import RESUMED, CsvTracker
from swarm_node.telemetry.events import RoundDone, RunStarted
from swarm_node.telemetry.jsonlines import PIECE, Lines
from tests.core.telemetry.test_jsonlines import FillingDisk
from tests.extensions.trackers.test_trackers import Keeping


def rows(folder: Path) -> list[dict[str, str]]:
    with (folder / "rounds.csv").open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("left", [b"", b"cut", b"x" * (PIECE - 4), b"x" * (2 * PIECE)])
def test_what_a_kill_left_of_a_line_is_removed_by_the_next_run(tmp_path: Path, left: bytes) -> None:
    path = tmp_path / "lines"
    for before in (b"", b"one\n", b"one\ntwo\n"):
        path.write_bytes(before + left)
        lines = Lines(path)
        assert lines.size == len(before)
        lines.append(b"next\n")
        lines.close()
        assert path.read_bytes() == before + b"next\n"


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/null"), Path.mkdir])
def test_what_is_no_plain_file_is_neither_waited_for_nor_followed(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "rounds.csv")
    with pytest.raises(UserError, match="tracker csv cannot begin"):
        Trackers(["csv"], tmp_path, print).take(RunStarted("node", ""))


def test_rounds_that_are_done_again_after_a_kill_are_marked_by_their_run(tmp_path: Path, round_report) -> None:
    first = CsvTracker(tmp_path, lambda: 0.0)
    for number in (0, 1, 2):
        first.take(RoundDone(round_report(number)))
    with (tmp_path / "rounds.csv").open("ab") as file:
        file.write(b"1970-01-01T00:00:00+00:00,,,3,0.2")  # and then it was killed
    second = CsvTracker(tmp_path, lambda: 60.0)
    for number in (1, 2, 3):
        second.take(RoundDone(round_report(number)))
    assert [(row["round"], row["run"][14:16]) for row in rows(tmp_path)] == [
        *[(str(number), "00") for number in (0, 1, 2)],
        *[(str(number), "01") for number in (1, 2, 3)],
    ]
    assert not any(None in row.values() for row in rows(tmp_path)), "every row is whole"


def test_a_table_with_other_columns_is_put_aside(tmp_path: Path, round_report) -> None:
    for text in ("arm,seed,round\n", "arm,seed,round,other\n"):
        (tmp_path / "rounds.csv").write_text(text)
        CsvTracker(tmp_path).take(RoundDone(round_report(7)))
        assert [row["round"] for row in rows(tmp_path)] == ["7"]
    assert (tmp_path / "rounds.1.csv").read_text() == "arm,seed,round\n"
    assert (tmp_path / "rounds.2.csv").read_text() == "arm,seed,round,other\n"


def test_a_table_on_a_full_disk_goes_on_when_there_is_room(tmp_path: Path, round_report) -> None:
    warnings: list[str] = []
    tracker = Trackers(["csv"], tmp_path, warnings.append)
    tracker.take(RunStarted("node", ""))
    lines = tracker._begun[0]._sink._lines
    disk = lines._file = FillingDisk(lines._file, room=30)
    tracker.take(RoundDone(round_report(0)))
    tracker.take(RoundDone(round_report(1)))
    disk.room = 9999
    tracker.take(RoundDone(round_report(2)))
    assert [row["round"] for row in rows(tmp_path)] == ["2"]
    assert len(warnings) == 1 and "cannot write (No space left on device)" in warnings[0]


def test_other_trackers_are_told_after_how_many_rounds_the_run_began(tmp_path: Path, round_report) -> None:
    tracker = Keeping(tmp_path / "home")
    tracker.take(RunStarted("node", "", rounds=40))
    tracker.take(RoundDone(round_report(40)))
    ((step, values),) = tracker.kept["home"].rows
    assert step == 40 and values[RESUMED] == 40
