"""`swarm-node view plot RUN ...`: figures of reports and homes, as PNG and SVG. Matplotlib is loaded when it draws."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from swarm_node.commands.command import Command
from swarm_node.common import private
from swarm_node.common.errors import UserError
from swarm_node.extensions.page.node import NodeWatch
from swarm_node.extensions.simulation.report import Report
from swarm_node.settings import Section
from swarm_node.settings.command_line import from_command_line
from swarm_node.telemetry.jsonlines import LONGEST, record_of
from swarm_node.telemetry.series import moving_average

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class PlotConfig(Section):
    """Figures of runs, as PNG and SVG."""

    runs: tuple[str, ...] = ()
    """Homes of nodes and report folders of simulations; they can be named without the flag."""
    out: Path | None = None
    """Folder for the figures; without it those of each run go into its own folder."""


PAGE = """\
usage: swarm-node view plot RUN ... [--out FOLDER]

The figures of runs, each as PNG and SVG: of a simulation by its report folder,
of a node by its home. Prints the files.

  --out FOLDER   for all figures (each run's own folder)"""

WINDOW = 20  # rounds


def command(argv: list[str]) -> None:
    """Draws, and prints the names of the files."""
    count = next((index for index, each in enumerate(argv) if each.startswith("-")), len(argv))
    named = ["--runs", *argv[:count]] if count else []
    config = from_command_line(PlotConfig, [*named, *argv[count:]], "swarm-node view plot", flags_only=True)
    if not config.runs:
        raise UserError("name a run: the home of a node, or the report folder of a simulation")
    for folder in map(Path, config.runs):
        for path in figures_of(folder.expanduser(), config.out):
            print(path)


def figures_of(folder: Path, out: Path | None) -> list[Path]:
    """The files that were written. UserError where there is nothing to draw, or no place for it."""
    if not folder.is_dir():
        raise UserError(f"{folder} is no folder: name the home of a node, or the report folder of a simulation")
    try:
        (out or folder).mkdir(parents=True, exist_ok=True)
        if _is_simulation(folder):
            report = report_of(folder)
            from swarm_node.extensions.simulation import plot

            figures = plot.figures(report)
        else:
            figures = {"node": _node_figure(folder)}
        paths = []
        for name, figure in figures.items():
            for kind in ("png", "svg"):
                stem = f"{folder.resolve().name}-{name}" if out else name
                paths.append((out or folder) / f"{stem}.{kind}")
                figure.savefig(paths[-1], format=kind)
    except OSError as error:
        raise UserError(f"{error.filename or folder}: {error.strerror}; choose another folder with --out") from error
    return paths


def _is_simulation(folder: Path) -> bool:
    try:
        manifest = record_of(private.read_plain(folder / "manifest.json", LONGEST)) or {}
    except OSError:
        return False
    return manifest.get("kind") == "simulation"


def report_of(folder: Path) -> Report:
    """The report of a simulation. UserError where there is none."""
    try:
        return msgspec.json.decode((folder / "report.json").read_bytes(), type=Report)
    except FileNotFoundError:
        raise UserError(f"{folder} has no report.json yet: its simulation is not finished") from None
    except (ValueError, RecursionError) as error:  # of msgspec all are ValueErrors
        raise UserError(f"{folder / 'report.json'} is no report: {error}") from error


def _node_figure(folder: Path) -> "Figure":
    node = NodeWatch(folder)
    while node.read():
        pass
    state = node.state()
    if not state["whole"]["rounds"]:
        raise UserError(f"{folder} holds no rounds: name the home of a node that has trained")
    from swarm_node.extensions.simulation.plot import new_figure

    figure = new_figure(11.0, 7.0)
    axes = figure.subplots(2, 2).flat
    whole, validations = state["whole"], state["validations"]
    if validations["rounds"]:
        axes[0].plot(validations["rounds"], validations["series"]["reward"], "o", color="#009E73", label="validation")
    _curves(axes[0], whole, "Reward", {"local": "reward"})
    _curves(axes[1], whole, "Reward by task", {task: f"task:{task}" for task in state["tasks"][:10]})
    _curves(axes[2], whole, "Groups trained on", {"local": "local_informative", "external": "external_informative"})
    _curves(axes[3], whole, "Entropy, nats per token", {"": "entropy"})
    figure.suptitle(f"{len(whole['rounds']) * whole['width']} rounds, moving average of {WINDOW} points", fontsize=11)
    figure.tight_layout()
    return figure


def _curves(axes: "Axes", columns: Mapping[str, Any], title: str, names: Mapping[str, str]) -> None:
    for label, key in names.items():
        series = columns["series"].get(key, [])
        points = [(at, value) for at, value in zip(columns["rounds"], series, strict=False) if value is not None]
        if points:
            rounds, values = zip(*points, strict=True)
            axes.plot(rounds, moving_average(values, WINDOW), label=label or None, linewidth=1.8)
    axes.set_title(title, loc="left", fontsize=10.5)
    axes.set_xlabel("round")
    axes.set_ylim(bottom=0.0)
    axes.grid(axis="y", alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    if any(names):
        axes.legend(frameon=False, fontsize=8)


PLOT = Command(PlotConfig, PAGE, command)
