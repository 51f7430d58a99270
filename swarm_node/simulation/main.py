"""`swarm-node simulate`: runs every arm with every seed, and writes a report folder. Only its
workers import torch.
"""

import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

from rich.console import Console

from swarm_node.common import plugins
from swarm_node.common.channel import Failed
from swarm_node.common.command import Command
from swarm_node.common.console import Terminal
from swarm_node.common.errors import TemporaryError, UserError, reason_of
from swarm_node.common.files import write_bytes, write_json
from swarm_node.environments.registry import kinds
from swarm_node.policy import named
from swarm_node.settings.command_line import from_command_line
from swarm_node.settings.simulation import SimulationConfig
from swarm_node.simulation.arms import (
    Cell,
    FinishedCell,
    all_cells,
    check_lone_nodes,
    contributors,
    node_config,
    parse_arm,
)
from swarm_node.simulation.attacks.hostile import hostile_nodes
from swarm_node.simulation.cell_pool import run_cells
from swarm_node.simulation.conclusion import conclusion
from swarm_node.simulation.engines.choice import engine_of
from swarm_node.simulation.estimate import estimated
from swarm_node.simulation.faults import Schedule
from swarm_node.simulation.folder import ReportFolder
from swarm_node.simulation.progress import SimulationTerminal
from swarm_node.simulation.report import Report, build_report
from swarm_node.simulation.tables import per_seed, result
from swarm_node.telemetry import events
from swarm_node.telemetry.jsonlines import JsonLines
from swarm_node.telemetry.simulated import CellFailed, CellFinished, CellRound
from swarm_node.telemetry.terminal import say
from swarm_node.telemetry.trackers.observer import trackers

WORKER = (sys.executable, "-P", "-m", "swarm_node.simulation.worker")

PAGE = """\
usage: swarm-node simulate [CONFIG.toml] [--flags]

Simulates a swarm on this machine, to find out what sharing brings. Writes
report.json, report.csv, rewards.png, manifest.json and events.jsonl.

  --nodes N                      number of nodes, each with its own policy (8)
  --arms I/J ...                 own and external groups per round: 8/0,4/4
  --rounds N                     rounds of every arm and seed (150)
  --seeds N                      repetitions of every arm (1)
  --out FOLDER                   folder for the report (runs/simulation)
  --resume, --overwrite          continue the report in it, or replace it
  --workers N                    arms and seeds side by side (one per core)
  --node-processes N             spread the nodes of each over N processes
  --model.name NAME              smollm2-135m, a starter, folder or hub name
  --evaluate-every N             rounds between tests with new questions
  --node-models NAME ...         models of nodes 0, 1, ... in turn
  --training.learning-rate RATE  3e-4 for starters, 2e-4 for LoRA adapters
  --faults.loss SHARE            share of messages that are lost
  --faults.die NODE@ROUND        a node that dies, such as 3@40
  --attack KIND                  hostile nodes, such as stealth, lies or flood
  --defence LAYER ...            length, ngrams, rescue (default: no layer)
  --engine NAME                  memory, process, or ray (a cluster)"""


def simulate(
    config: SimulationConfig,
    console: Console | None = None,
    worker: Sequence[str] = WORKER,
    clock: Callable[[], float] = time.monotonic,
) -> Path:
    """Runs the unfinished cells, writes the report and shows it. Returns the path of report.json.

    UserError for a mistake in the configuration or the folder, and if a cell failed; finished cells
    are kept. KeyboardInterrupt passes on, after a line that says how to resume. `worker` is the
    command of a worker process.
    """
    console = console or Terminal()
    cells = check(config)
    folder = ReportFolder(config.out)
    warn = partial(say, console, style="yellow")
    try:
        warning = folder.prepare(config)
        # The first round of a large model may take minutes
        say(console, f"loading {config.model.name} ...")
        for name in named.KNOWN.keys() & {config.model.name, *config.node_models}:
            named.obtain(name, partial(say, console))  # once, before many workers want it
        for kind in kinds(config.environment.use):
            kind.fetch(config)
        records = folder.load(cells, config.rounds) if config.resume else []
        finished = {record.cell for record in records}
        todo = [cell for cell in cells if cell not in finished]
        at_once = cells_at_once(config, todo)
        for line in estimated(config, todo, at_once):
            say(console, line)
        with events.Telemetry(show=warn) as telemetry:
            events.observe(telemetry, folder.path, config, {"trackers": trackers})
            telemetry.add(JsonLines(folder.events, warn))
            telemetry.add(
                SimulationTerminal(console, len(todo), config.rounds, config.round.questions, clock)
            )
            telemetry.add(EarlyFigure(config, folder.path))
            telemetry.emit(events.RunStarted("simulation", str(folder.path), _facts(config)))
            if warning:
                telemetry.emit(events.Warned(warning))
            if records:
                telemetry.emit(
                    events.Notice(f"continuing: {len(records)} of {len(cells)} cells are finished")
                )
            records += _run(config, todo, len(cells), folder, telemetry=telemetry, worker=worker)
            report = build_report(config, records)
            write_json(folder.report, asdict(report))
            write_bytes(folder.path / "report.csv", per_seed(report).encode())
            _draw(report, folder)
            telemetry.emit(events.RunFinished(f"{len(cells)} cells of {config.rounds} rounds"))
        console.print(result(report))
        say(console, f"report: {folder.report}   plots: {folder.path}/*.png")
        console.print(f"\n{conclusion(report)}", markup=False, highlight=False)
        return folder.report
    except OSError as error:
        where = error.filename or folder.path
        raise UserError(
            f"{where}: {reason_of(error)}; what is finished is kept: continue with --resume"
        ) from error


def check(config: SimulationConfig) -> list[Cell]:
    """Checks all that can be checked before anything starts. Returns the cells to run."""
    Schedule(config.faults, config.nodes, config.rounds)
    hostile_nodes(config)
    contributors(config)
    check_lone_nodes(config)
    for node in range(config.nodes):
        node_config(config, node)
    engine_of(config).check(config)
    plugins.made("samplers", config.round.sampler)
    return all_cells(config)


def cells_at_once(config: SimulationConfig, todo: Sequence[Cell]) -> int:
    """Cells that run side by side."""
    return min(len(todo), config.workers or engine_of(config).cells_at_once(config))


def _run(
    config: SimulationConfig,
    todo: Sequence[Cell],
    total: int,
    folder: ReportFolder,
    *,
    telemetry: events.Telemetry,
    worker: Sequence[str],
) -> list[FinishedCell]:
    """Runs the cells, saving each as it ends. A cell that fails does not stop the others; a user's
    mistake does.
    """
    records: list[FinishedCell] = []
    failed: list[tuple[Cell, Failed]] = []
    engine, at_once = engine_of(config), cells_at_once(config, todo)
    processes = engine.node_processes(config, todo, at_once)
    outcomes = run_cells(
        todo,
        workers=at_once,
        launch=engine.launch(config, folder.log, worker, processes),
        emit=telemetry.emit,
    )
    try:
        for cell, outcome in outcomes:
            if isinstance(outcome, FinishedCell):
                records.append(outcome)
                folder.save(outcome)
                folder.log(cell).unlink(missing_ok=True)
                total_reward = sum(done.reward for done in outcome.rounds)
                telemetry.emit(CellFinished(str(cell.arm), cell.seed, total_reward))
            elif outcome.by_user:
                folder.log(cell).unlink(missing_ok=True)
                raise (TemporaryError if outcome.passing else UserError)(outcome.error)
            else:
                failed.append((cell, outcome))
                telemetry.emit(CellFailed(str(cell.arm), cell.seed, outcome.error))
    except KeyboardInterrupt:
        done = total - len(todo) + len(records)
        telemetry.emit(
            events.Notice(
                f"interrupted: {done} of {total} cells are finished and kept; continue with "
                "--resume"
            )
        )
        raise
    finally:
        outcomes.close()
    if failed:
        cell, first = failed[0]
        passing = all(failure.passing for _, failure in failed)
        trouble = (
            f"{len(failed)} of {total} cells failed, the first ({cell}): {first.error}; "
            f"details in {folder.log(cell)}, continue with --resume"
        )
        raise (TemporaryError if passing else UserError)(trouble)
    return records


class EarlyFigure(events.Sink):
    """Implements events.Sink: redraws accuracy.png from the rounds so far whenever held-out
    questions were asked.
    """

    def __init__(self, config: SimulationConfig, folder: Path) -> None:
        self._config, self._folder = config, folder
        self._rounds: dict[Cell, list[CellRound]] = {}

    def take(self, event: events.Event) -> None:
        """Keeps a round. If its cell has begun again, the round replaces the same round and all
        later ones.
        """
        if isinstance(event, CellRound):
            cell = Cell(parse_arm(event.arm), event.seed)
            self._rounds[cell] = [*self._rounds.get(cell, [])[: event.round], event]
            if event.accuracy:
                self._draw()

    def _draw(self) -> None:
        """Draws the first seed alone, as other seeds may have fewer rounds so far."""
        from swarm_node.simulation.plot import accuracy

        records: list[FinishedCell] = []
        for cell, rounds in self._rounds.items():
            if cell.seed == self._config.seed and any(done.accuracy for done in rounds):
                records.append(FinishedCell(cell, tuple(rounds), 0.0))
        if records:
            report = build_report(self._config.model_copy(update={"seeds": 1}), records)
            accuracy(report).savefig(self._folder / "accuracy.png")


def _draw(report: Report, folder: ReportFolder) -> None:
    """Draws the plots. Matplotlib is imported only now: earlier it would take memory from the
    cells.
    """
    from swarm_node.simulation.plot import figures

    for name, figure in figures(report).items():
        figure.savefig(folder.path / f"{name}.png")


def _facts(config: SimulationConfig) -> dict[str, str]:
    return {
        "nodes": str(config.nodes),
        "arms": ", ".join(config.arms),
        "rounds": str(config.rounds),
        "seeds": str(config.seeds),
        "model": ", ".join(config.node_models) or config.model.name,
        "process": str(os.getpid()),
    }


def command(argv: list[str]) -> None:
    """Writes a report folder, and shows its figures."""
    simulate(from_command_line(SimulationConfig, argv, "swarm-node simulate"))


SIMULATE = Command(SimulationConfig, PAGE, command)
