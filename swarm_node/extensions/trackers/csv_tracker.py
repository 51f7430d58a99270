"""The figures of every round as a table: rounds.csv in the folder of the run. A tracker as a plug-in could be.

`run` is the time at which the run began. A round that stands there twice was lost to a kill and done again: the later
run counts.
"""

import csv
import io
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

from swarm_node.common.files import read_plain
from swarm_node.extensions.simulation.events import CellRound
from swarm_node.rollouts.groups import METRICS, figures
from swarm_node.telemetry.events import Event, RoundDone
from swarm_node.telemetry.jsonlines import Lines

FILE = "rounds.csv"
COLUMNS = ("run", "arm", "seed", "round", *METRICS)


class CsvTracker:
    """Appends a row per round: of this node, or of an arm and seed of a simulation."""

    def __init__(self, folder: Path, clock: Callable[[], float] = time.time) -> None:
        """A table that has other columns, as another version wrote it, is put aside as rounds.1.csv."""
        path, header = folder / FILE, _row(COLUMNS)
        self._run = datetime.fromtimestamp(clock(), UTC).isoformat(timespec="seconds")
        if path.exists() and (begins := read_plain(path, len(header))) and begins != header:
            path.rename(next(aside for n in count(1) if not (aside := folder / f"rounds.{n}.csv").exists()))
        self._lines = Lines(path)
        if not self._lines.size:
            self._lines.append(header)

    def take(self, event: Event) -> None:
        match event:
            case RoundDone(report=report):
                self._append("", "", report.round, *figures(report).values())
            case CellRound(arm=arm, seed=seed, round=number, metrics=metrics):
                self._append(arm, seed, number, *(metrics[name] for name in METRICS))

    def close(self) -> None:
        self._lines.close()

    def _append(self, *values: object) -> None:
        self._lines.append(_row([self._run, *values]))


def _row(values: Sequence[object]) -> bytes:
    line = io.StringIO(newline="")
    csv.writer(line).writerow(values)
    return line.getvalue().encode()
