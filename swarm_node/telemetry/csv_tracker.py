"""The figures of every round as a table: rounds.csv in the folder of the run. A tracker as a plug-in could be."""

import csv
from pathlib import Path

from swarm_node.reports import METRICS, figures
from swarm_node.telemetry.events import CellRound, Event, RoundDone

FILE = "rounds.csv"


class CsvTracker:
    """Appends a row per round: of this node, or of an arm and seed of a simulation."""

    def __init__(self, folder: Path) -> None:
        path = folder / FILE
        fresh = not path.exists() or not path.stat().st_size
        self._file = path.open("a", newline="", encoding="utf-8", buffering=1)
        self._rows = csv.writer(self._file)
        if fresh:
            self._rows.writerow(["arm", "seed", "round", *METRICS])

    def take(self, event: Event) -> None:
        match event:
            case RoundDone(report=report):
                self._rows.writerow(["", "", report.round, *figures(report).values()])
            case CellRound(arm=arm, seed=seed, round=number, metrics=metrics):
                self._rows.writerow([arm, seed, number, *(metrics[name] for name in METRICS)])
            case _:
                pass

    def close(self) -> None:
        self._file.close()
