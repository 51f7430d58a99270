"""Does the runs of a study on all cores, says what they cost, and does none of them twice.

A run is one simulation of one arm and one seed, kept as report.json in a folder of its own. A study
names its runs; this module does the missing ones, all or some, and reads the reports that are
there.
"""

import argparse
import csv
import json
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from lab.benchmarks import command
from lab.studies.simulated import simulated
from swarm_node.common.children import usable_cores
from swarm_node.common.errors import UserError
from swarm_node.settings.simulation import SimulationConfig

# Seconds of a core for a node's round on a starter, nine groups of eight; measured on two cores
NODE_ROUND = 0.13
START = 8.0  # seconds of a core to start a run
COMPLETION = 0.0007  # seconds of a core for a held-out completion
ROW = ("name", "arm", "seed", "rate", "cumulative_reward", "final_reward")
HELD_OUT = ("final", "final_local", "final_other", "area")
COST = ("trained_tokens", "generated_tokens", "cpu_seconds", "wall_seconds")


class NotDone(Exception):
    """A run that a result needs has not been done."""


@dataclass(frozen=True)
class Run:
    """One arm with one seed."""

    name: str  # what it is a run of, such as "3 kinds, 4/4"
    config: SimulationConfig  # with one arm and one seed

    def folder(self, runs: Path) -> Path:
        """The folder in which the run is kept."""
        rate = self.config.training.learning_rate
        return (
            runs
            / self.name.replace("/", "-").replace(", ", "_").replace(" ", "_")
            / f"{rate:g}"
            / str(self.seed)
        )

    @property
    def seed(self) -> int:
        return self.config.seed

    @property
    def rate(self) -> float:
        return self.config.training.learning_rate

    @property
    def key(self) -> tuple[str, float, int]:
        """What distinguishes the run from the other runs of a study."""
        return self.name, self.rate, self.seed

    @property
    def seconds(self) -> float:
        """Estimated seconds of a core, for its rounds and for held-out questions of nine tasks."""
        config = self.config
        asked = config.rounds // config.evaluate_every if config.evaluate_every else 0
        completions = asked * 9 * config.evaluate_questions * config.evaluate_samples
        return config.nodes * (config.rounds * NODE_ROUND + completions * COMPLETION)

    def report(self, runs: Path) -> dict[str, Any] | None:
        """The report of the run; None if it has not been done."""
        path = self.folder(runs) / "report.json"
        if not path.exists():
            return None
        found: dict[str, Any] = json.loads(path.read_text())
        return found


def make(name: str, arm: str, seed: int, rate: float, **options: Any) -> Run:
    """A run of the arm. `options`: fields of SimulationConfig; a section is a mapping of its fields
    that differ.
    """
    config = SimulationConfig(arms=(arm,), seed=seed, seeds=1, workers=1)
    options["training"] = {"learning_rate": rate, **options.get("training", {})}
    for field, value in options.items():
        if isinstance(value, Mapping):
            value = getattr(config, field).model_copy(update=dict(value))
        config = config.model_copy(update={field: value})
    return Run(name, SimulationConfig.model_validate(config.model_dump()))


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of every study that runs simulations."""
    command.add_runs(parser)
    command.add_out(parser)
    command.add_quick(parser)
    parser.add_argument(
        "--cores",
        type=int,
        help="runs side by side (as many as there are cores, here or by --engine)",
    )
    parser.add_argument(
        "--at-most",
        type=int,
        metavar="N",
        help="begin no more than N runs, then report what is there",
    )
    parser.add_argument("--report", action="store_true", help="run nothing, report what is there")
    parser.add_argument("--cost", action="store_true", help="say what it would cost, and end")


def do(runs: Sequence[Run], options: argparse.Namespace, file: Path | None = None) -> bool:
    """Prints how many runs are missing and their cost, and does them. Returns whether to go on to a
    report. A run that fails is printed and left out; the others continue. `file`: rows that
    `listed` wrote, whose runs are not done again.
    """
    kept = kept_in(file)
    missing = [run for run in runs if run.key not in kept and run.report(options.runs) is None]
    print(cost(runs, missing, options.runs, options.cores or usable_cores()), flush=True)
    if options.cost:
        return False
    if options.report:
        return True
    todo = missing if options.at_most is None else missing[: options.at_most]
    if options.at_most is not None:
        options.at_most -= len(todo)  # the limit is for the whole command
    if todo:
        with ThreadPoolExecutor(options.cores or usable_cores()) as pool:
            list(pool.map(lambda run: _one(run, options.runs), todo))
    return True


def needed(run: Run, folder: Path) -> dict[str, Any]:
    """The report of a run. Raises NotDone if the run has not been done."""
    found = run.report(folder)
    if found is None:
        raise NotDone(run.name)
    return found


def cost(runs: Sequence[Run], missing: Sequence[Run], folder: Path, cores: int) -> str:
    """One line on what the missing runs cost. Runs that were done on this machine show how fast it
    is.
    """
    done = [(run, report) for run in runs if (report := run.report(folder)) is not None]
    speed = fmean(_cpu(report) / run.seconds for run, report in done) if done else 1.0
    hours = sum(START + speed * run.seconds for run in missing) / 3600
    return (
        f"{len(runs)} runs, {len(done)} done; {len(missing)} to do: about {hours:.1f} hours of a "
        "core, "
        f"{hours / max(1, cores):.1f} on {cores}"
    )


def row(run: Run, report: Mapping[str, Any]) -> dict[str, Any]:
    """The figures of a run on one line."""
    (arm, found), (spent,) = next(iter(report["arms"].items())), report["cost"].values()
    known = found.get("held_out") or {}
    values = {
        "name": run.name,
        "arm": arm,
        "seed": run.seed,
        "rate": run.rate,
        "cumulative_reward": found["cumulative_reward"][0],
        "final_reward": found["final_reward"][0],
        **{key: known[key][0] for key in HELD_OUT if known},
        "trained_tokens": found["trained_tokens"],
        "generated_tokens": found["generated_tokens"],
        "cpu_seconds": spent["cpu_seconds"][0][-1],
        "wall_seconds": spent["wall_seconds"][0][-1],
    }
    return {
        key: round(value, 5) if isinstance(value, float) and key != "rate" else value
        for key, value in values.items()
    }


def kept_in(file: Path | None) -> dict[tuple[str, float, int], dict[str, Any]]:
    """The rows that `listed` wrote, by the key of their run."""
    if file is None or not file.exists():
        return {}
    with file.open(newline="") as opened:
        rows: list[dict[str, Any]] = [
            {
                key: value if key in ("name", "arm") else json.loads(value)
                for key, value in each.items()
                if value
            }
            for each in csv.DictReader(opened)
        ]
    return {(each["name"], each["rate"], each["seed"]): each for each in rows}


def listed(runs: Sequence[Run], folder: Path, file: Path) -> list[dict[str, Any]]:
    """A row for each of these runs that is done, here or in an earlier session whose row is in
    `file`. Writes the rows to `file` as CSV and keeps its other rows, so that it lists every run,
    even one that no result uses.
    """
    done = {run.key: row(run, report) for run in runs if (report := run.report(folder)) is not None}
    rows = {**kept_in(file), **done}
    columns = list(dict.fromkeys(key for each in rows.values() for key in each)) or list(ROW)
    with file.open("w", newline="") as opened:
        writer = csv.DictWriter(opened, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows.values())
    return [rows[run.key] for run in runs if run.key in rows]


def by_seed(
    rows: Sequence[Mapping[str, Any]],
    name: str,
    figure: str,
    seeds: Sequence[int],
    rate: float | None = None,
) -> dict[int, float]:
    """A figure by seed, of the runs with this name that are done."""
    return {
        each["seed"]: each[figure]
        for each in rows
        if each["name"] == name
        and each["seed"] in seeds
        and (rate is None or each["rate"] == rate)
        and each.get(figure) is not None
    }


def _cpu(report: Mapping[str, Any]) -> float:
    return sum(
        float(seconds[-1]) for cost in report["cost"].values() for seconds in cost["cpu_seconds"]
    )


def _one(run: Run, folder: Path) -> None:
    started = time.monotonic()
    out = run.folder(folder)
    try:
        simulated(run.config.model_copy(update={"out": out}))
    except UserError as error:
        print(f"{run.name} {run.rate:g} seed {run.seed}: failed: {error}", flush=True)
        return
    print(
        f"{run.name} {run.rate:g} seed {run.seed}: {time.monotonic() - started:.0f} s", flush=True
    )
