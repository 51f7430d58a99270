"""The trackers that ship.

csv: a table of our own, as a plug-in could be. trackio and wandb: by the names that TRL's `report_to` has for them. A
node is one run; a simulation is a run for each arm and seed. Figures that TRL logs have its names, the others
`swarm/NAME`. Each library is imported when it is asked for: only trackio is an extra of ours.
"""

import csv
import importlib
import io
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any, Protocol

from swarm_node.common.errors import UserError
from swarm_node.common.files import read_plain
from swarm_node.extensions.simulation.events import CellFailed, CellFinished, CellRound
from swarm_node.rollouts.groups import METRICS, Figure, figures
from swarm_node.telemetry.events import Event, RoundDone, RunStarted, Validated
from swarm_node.telemetry.jsonlines import Lines

FILE = "rounds.csv"
COLUMNS = ("run", "arm", "seed", "round", *METRICS)
PROJECT = "swarm-node"
RESUMED = "swarm/resumed_after"  # rounds: of a round that stands there twice, the row that came later counts
TRL = {  # figures -> as TRL's GRPOTrainer calls them
    "reward": "reward",
    "loss": "loss",
    "grad_norm": "grad_norm",
    "learning_rate": "learning_rate",
    "entropy": "entropy",
    "mean_length": "completions/mean_length",
    "clip_fraction": "clip_ratio/region_mean",
}


class CsvTracker:
    """Appends a row per round to a table: of this node, or of an arm and seed of a simulation. `run` is the time when
    the run began. A round that stands there twice was lost to a kill and done again: the later run counts."""

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


class Run(Protocol):
    """One curve: a node, or an arm and seed. Runs of trackio and wandb are such."""

    def log(self, values: dict[str, float], step: int) -> None:
        """Figures of a round."""

    def finish(self) -> None:
        """No more of them."""


class Tracker(ABC):
    """Sorts events into runs. A subclass begins them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.done = 0  # rounds before this run: those of this number and above are done again after a kill
        self._runs: dict[str, Run] = {}

    @abstractmethod
    def begin(self, name: str) -> Run:
        """A run of this name."""

    def take(self, event: Event) -> None:
        match event:
            case RunStarted(rounds=rounds):
                self.done = rounds
            case RoundDone(report=report):
                values = {f"reward/{task}": reward for task, reward in report.reward_by_task.items()}
                values |= named(figures(report)) | {RESUMED: self.done}
                self._run(self.folder.name).log(values, report.round)
            case Validated(round=number, reward=reward):
                self._run(self.folder.name).log({"eval/reward": reward}, number)
            case CellRound(arm=arm, seed=seed, round=number, metrics=metrics):
                self._run(f"{arm} seed {seed}").log(named(metrics), number)
            case CellFinished(arm=arm, seed=seed) | CellFailed(arm=arm, seed=seed):
                self._end(f"{arm} seed {seed}")

    def close(self) -> None:
        for name in list(self._runs):
            self._end(name)

    def _run(self, name: str) -> Run:
        if name not in self._runs:
            self._runs[name] = self.begin(name)
        return self._runs[name]

    def _end(self, name: str) -> None:
        if run := self._runs.pop(name, None):
            run.finish()


class TrackioTracker(Tracker):
    """Local first: a database in the folder of the run, no account. `TRACKIO_DIR` names another place."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        os.environ.setdefault("TRACKIO_DIR", str(folder / "trackio"))
        self._trackio = library("trackio", "pip install 'textswarm[trackio]'")

    def begin(self, name: str) -> Run:
        run: Run = self._trackio.init(project=PROJECT, name=name, resume="allow", embed=False)
        return run


class WandbTracker(Tracker):
    """Whatever account and mode wandb is set up with; `WANDB_MODE=offline` sends nothing."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._wandb = library("wandb", "pip install wandb")

    def begin(self, name: str) -> Run:
        run: Run = self._wandb.init(project=PROJECT, name=name, dir=str(self.folder), reinit="create_new")
        return run


def named(values: Mapping[str, Figure]) -> dict[str, float]:
    """Those that the round has, by TRL's names where it has them."""
    return {TRL.get(name, f"swarm/{name}"): value for name, value in values.items() if value is not None}


def library(name: str, remedy: str) -> Any:
    """UserError with the remedy where it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise UserError(f"tracker needs {name.split('.')[0]}: {remedy} ({error})") from error
