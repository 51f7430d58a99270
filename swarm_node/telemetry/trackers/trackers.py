"""The trackers that ship.

trackio and wandb, by the names that TRL's `report_to` has for them. A node is one run; a simulation
is a run for each arm and seed. Figures that TRL logs have TRL's names, the others `swarm/NAME`. A
library is imported only when its tracker is asked for; only trackio is an extra of ours.
"""

import importlib
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from swarm_node.common.errors import UserError
from swarm_node.rollouts.groups import Figure, figures
from swarm_node.telemetry.events import Event, RoundDone, RunStarted, Validated
from swarm_node.telemetry.simulated import CellFailed, CellFinished, CellRound

PROJECT = "swarm-node"
RESUMED = "swarm/resumed_after"  # rounds; where a round stands there twice, the later row counts
TRL = {  # figures -> as TRL's GRPOTrainer calls them
    "reward": "reward",
    "loss": "loss",
    "grad_norm": "grad_norm",
    "learning_rate": "learning_rate",
    "entropy": "entropy",
    "mean_length": "completions/mean_length",
    "clip_fraction": "clip_ratio/region_mean",
}


class Run(Protocol):
    """One curve: a node, or an arm and seed. Runs of trackio and wandb have these methods."""

    def log(self, values: dict[str, float], step: int) -> None:
        """Logs the figures of a round."""

    def finish(self) -> None:
        """Ends the run: no more figures follow."""


class Tracker(ABC):
    """Sorts events into runs. A subclass begins them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # Rounds before this run; after a kill, rounds of this number and above are done again
        self.done = 0
        self._runs: dict[str, Run] = {}

    @abstractmethod
    def begin(self, name: str) -> Run:
        """Begins a run of this name."""

    def take(self, event: Event) -> None:
        match event:
            case RunStarted(rounds=rounds):
                self.done = rounds
            case RoundDone(report=report):
                values = {
                    f"reward/{task}": reward for task, reward in report.reward_by_task.items()
                }
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
    """Logs to a database in the folder of the run, without an account. `TRACKIO_DIR` names another
    place.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        os.environ.setdefault("TRACKIO_DIR", str(folder / "trackio"))
        self._trackio = library("trackio", "pip install 'textswarm[trackio]'")

    def begin(self, name: str) -> Run:
        run: Run = self._trackio.init(project=PROJECT, name=name, resume="allow", embed=False)
        return run


class WandbTracker(Tracker):
    """Logs with the account and mode that wandb is set up with; `WANDB_MODE=offline` sends
    nothing.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._wandb = library("wandb", "pip install wandb")

    def begin(self, name: str) -> Run:
        run: Run = self._wandb.init(
            project=PROJECT, name=name, dir=str(self.folder), reinit="create_new"
        )
        return run


def named(values: Mapping[str, Figure]) -> dict[str, float]:
    """The figures that the round has, by TRL's names where TRL logs them."""
    measured = {name: value for name, value in values.items() if value is not None}
    return {TRL.get(name, f"swarm/{name}"): value for name, value in measured.items()}


def library(name: str, remedy: str) -> Any:
    """The imported library. UserError with the remedy where it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise UserError(f"tracker needs {name.split('.')[0]}: {remedy} ({error})") from error
