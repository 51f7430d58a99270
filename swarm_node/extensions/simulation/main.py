"""`simulate`: arms and seeds in, a report folder out. Imports no torch; its workers do."""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

from rich.console import Console

from swarm_node.common.children import usable_cores
from swarm_node.common.errors import UserError
from swarm_node.common.files import write_json
from swarm_node.extensions.simulation.arms import Cell, all_cells
from swarm_node.extensions.simulation.attacks.hostile import hostile_nodes
from swarm_node.extensions.simulation.cell_pool import Failed, Finished, run_cells
from swarm_node.extensions.simulation.engines.engine import engine_of
from swarm_node.extensions.simulation.faults import Schedule
from swarm_node.extensions.simulation.folder import Record, ReportFolder
from swarm_node.extensions.simulation.node_options import contributors, is_mixed, node_config
from swarm_node.extensions.simulation.progress import simulation_terminal
from swarm_node.extensions.simulation.report import Report, build_report
from swarm_node.extensions.simulation.tables import result
from swarm_node.extensions.simulation.workers import WORKER, local_launch, prefixes_of, remote_command
from swarm_node.policy.models import fetch
from swarm_node.settings import SimulationConfig
from swarm_node.telemetry.events import (
    CellFailed,
    CellFinished,
    Notice,
    RunFinished,
    RunStarted,
    Telemetry,
    Warned,
    observe,
)
from swarm_node.telemetry.jsonlines import JsonLines
from swarm_node.telemetry.terminal import say


def simulate(
    config: SimulationConfig,
    console: Console | None = None,
    worker: Sequence[str] = WORKER,
    clock: Callable[[], float] = time.monotonic,
) -> Path:
    """Runs the unfinished cells, writes the report and shows it. Returns the path of report.json.

    UserError for a mistake in the configuration or the folder, and if a cell failed; finished cells are kept.
    KeyboardInterrupt passes, after a line on how to go on. `worker` is the command of a worker process.
    """
    console = console or Console()
    cells = check(config)
    folder = ReportFolder(config.out)
    try:
        return _simulate(config, cells, folder, console=console, worker=worker, clock=clock)
    except OSError as error:
        where = error.filename or folder.path
        raise UserError(f"{where}: {error.strerror}; finished cells are kept, go on with --resume") from error
    finally:
        engine_of(config).clean_up(config)


def check(config: SimulationConfig) -> list[Cell]:
    """Checks all that can be checked before anything starts. Returns the cells to run."""
    Schedule(config.faults, config.nodes, config.rounds)
    hostile_nodes(config)
    contributors(config)
    for node in range(config.nodes):
        node_config(config, node)
    engine_of(config).check(config)
    if prefixes_of(config):
        remote_command(config)
    return all_cells(config)


def _simulate(
    config: SimulationConfig,
    cells: Sequence[Cell],
    folder: ReportFolder,
    *,
    console: Console,
    worker: Sequence[str],
    clock: Callable[[], float],
) -> Path:
    warning = folder.prepare(config)
    say(console, f"loading {config.model.name} ...")  # the first round of a large model may take minutes
    for name in dict.fromkeys((config.model.name, *config.node_models)):
        fetch(name, partial(say, console))  # once, before many workers want it
    records = folder.load(cells, config.rounds) if config.resume else []
    finished = {record.cell for record in records}
    todo = [cell for cell in cells if cell not in finished]
    warn = partial(say, console, style="yellow")
    terminal = simulation_terminal(console, len(todo), config.rounds, config.round.questions, clock)
    with Telemetry(show=warn) as telemetry:
        observe(telemetry, folder.path, config)
        telemetry.add(JsonLines(folder.events, warn))
        telemetry.add(terminal)
        telemetry.emit(RunStarted("simulation", str(folder.path), _facts(config)))
        if warning:
            telemetry.emit(Warned(warning))
        if records:
            telemetry.emit(Notice(f"going on: {len(records)} of {len(cells)} cells are finished"))
        records += _run(config, todo, len(cells), folder, telemetry=telemetry, worker=worker)
        report = build_report(config, records)
        write_json(folder.report, asdict(report))
        _draw(report, folder)
        telemetry.emit(RunFinished(f"{len(cells)} cells of {config.rounds} rounds"))
    console.print(result(report, mixed=is_mixed(config)))
    say(console, f"report: {folder.report}   plot: {folder.plot}")
    return folder.report


def _run(
    config: SimulationConfig,
    todo: Sequence[Cell],
    total: int,
    folder: ReportFolder,
    *,
    telemetry: Telemetry,
    worker: Sequence[str],
) -> list[Record]:
    """Runs the cells, saving each as it ends. A cell that fails does not stop the others; a user's mistake does."""
    records: list[Record] = []
    failed: list[Failed] = []
    outcomes = run_cells(
        todo,
        workers=_workers(config, len(todo)),
        launch=engine_of(config).launch(config) or local_launch(config, folder.log, worker),
        emit=telemetry.emit,
    )
    try:
        for outcome in outcomes:
            cell = outcome.cell
            if isinstance(outcome, Finished):
                records.append(Record(cell, outcome.rounds, outcome.memory))
                folder.save(records[-1])
                folder.log(cell).unlink(missing_ok=True)
                total_reward = sum(done.reward for done in outcome.rounds)
                telemetry.emit(CellFinished(str(cell.arm), cell.seed, total_reward))
            elif outcome.by_user:
                folder.log(cell).unlink(missing_ok=True)
                raise UserError(outcome.error)
            else:
                failed.append(outcome)
                telemetry.emit(CellFailed(str(cell.arm), cell.seed, outcome.error))
    except KeyboardInterrupt:
        done = total - len(todo) + len(records)
        telemetry.emit(Notice(f"interrupted: {done} of {total} cells are finished and kept; go on with --resume"))
        raise
    finally:
        outcomes.close()
    if failed:
        first = failed[0]
        raise UserError(
            f"{len(failed)} of {total} cells failed, the first ({first.cell}): {first.error}; "
            f"details in {folder.log(first.cell)}, go on with --resume"
        )
    return records


def _draw(report: Report, folder: ReportFolder) -> None:
    """Draws the plots. Matplotlib is imported only now: earlier it would take memory from the cells."""
    from swarm_node.extensions.simulation.plot import draw

    draw(report, folder.plot)
    if any(arm.held_out for arm in report.arms.values()):
        from swarm_node.extensions.simulation.plot_accuracy import draw_accuracy

        draw_accuracy(report, folder.accuracy)


def _workers(config: SimulationConfig, cells: int) -> int:
    if prefixes := prefixes_of(config):
        return max(1, min(config.workers or len(prefixes), cells))
    engine = engine_of(config)
    fitting = engine.cells_at_once(config)
    if fitting is None:
        fitting = max(1, usable_cores() // (engine.processes(config) * (config.threads or 1)))
    return max(1, min(config.workers or fitting, cells))


def _facts(config: SimulationConfig) -> dict[str, str]:
    return {
        "nodes": str(config.nodes),
        "arms": ", ".join(config.arms),
        "rounds": str(config.rounds),
        "seeds": str(config.seeds),
        "model": ", ".join(config.node_models) or config.model.name,
        "process": str(os.getpid()),
    }
