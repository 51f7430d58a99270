"""Files of a run after a kill, on a full disk, and where something else lies in their place."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from swarm_node.telemetry.events import RoundDone, RunStarted
from swarm_node.telemetry.jsonlines import PIECE, Lines
from swarm_node.telemetry.trackers.trackers import RESUMED
from tests.core.telemetry.test_trackers import Keeping


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
def test_what_is_no_plain_file_is_neither_waited_for_nor_followed(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    make(tmp_path / "lines")
    with pytest.raises(OSError):
        Lines(tmp_path / "lines")


def test_other_trackers_are_told_after_how_many_rounds_the_run_began(
    tmp_path: Path, round_report
) -> None:
    tracker = Keeping(tmp_path / "home")
    tracker.take(RunStarted("node", "", rounds=40))
    tracker.take(RoundDone(round_report(40)))
    ((step, values),) = tracker.kept["home"].rows
    assert step == 40 and values[RESUMED] == 40
