"""`swarm-node view plot RUN ...`: figures of reports, as PNG and SVG. Imports matplotlib only when
it draws.
"""

from itertools import dropwhile
from pathlib import Path

from swarm_node.common.command import Command
from swarm_node.common.errors import UserError, reason_of
from swarm_node.common.parsing import parse_typed, read_whole
from swarm_node.settings import Section
from swarm_node.settings.command_line import from_command_line
from swarm_node.settings.flags import flags_and_words, is_flag
from swarm_node.simulation.folder import MAX_REPORT_BYTES
from swarm_node.simulation.report import Report
from swarm_node.telemetry.jsonlines import LONGEST, record_of


class PlotConfig(Section):
    """Draw figures of simulations, as PNG and SVG."""

    runs: tuple[str, ...] = ()
    """Report folders of simulations. You can name them without the flag."""
    out: Path | None = None
    """Folder for all figures. Empty: the figures of each simulation go into its own report folder.
    """


PAGE = """\
usage: swarm-node view plot RUN ... [--out FOLDER]

Draws the figures of simulations, each as PNG and SVG, and prints the names of
the files. RUN is the report folder of a simulation.

  --out FOLDER   folder for all figures (default: each run's own folder)"""


def command(argv: list[str]) -> None:
    """Draws, and prints the names of the files."""
    before, words = flags_and_words(argv)
    flags = list(dropwhile(lambda word: not is_flag(word), before))
    runs = before[: len(before) - len(flags)] + words
    named = [f"--runs={run}" for run in runs]
    config = from_command_line(
        PlotConfig, [*named, *flags], "swarm-node view plot", flags_only=True
    )
    if not config.runs:
        raise UserError("name a run: the report folder of a simulation")
    for folder in map(Path, config.runs):
        for path in figures_of(folder.expanduser(), config.out):
            print(path)


def figures_of(folder: Path, out: Path | None) -> list[Path]:
    """Draws a report. Returns the files written. UserError where there is no report, or the files
    cannot be written.
    """
    if not folder.is_dir():
        raise UserError(f"{folder} is not a folder: name the report folder of a simulation")
    if not _is_simulation(folder):
        raise UserError(f"{folder} holds no simulation: swarm-node page shows a node")
    report = report_of(folder)
    try:
        (out or folder).mkdir(parents=True, exist_ok=True)
        from swarm_node.simulation import plot

        paths = []
        for name, figure in plot.figures(report).items():
            for kind in ("png", "svg"):
                stem = f"{folder.resolve().name}-{name}" if out else name
                paths.append((out or folder) / f"{stem}.{kind}")
                figure.savefig(paths[-1], format=kind)
    except OSError as error:
        raise UserError(
            f"{error.filename or folder}: {reason_of(error)}; choose another folder with --out"
        ) from error
    return paths


def _is_simulation(folder: Path) -> bool:
    try:
        manifest = record_of(read_whole(folder / "manifest.json", LONGEST)) or {}
    except (OSError, ValueError):
        return False
    return manifest.get("kind") == "simulation"


def report_of(folder: Path) -> Report:
    """The report of a simulation. UserError where there is none."""
    try:
        return parse_typed(read_whole(folder / "report.json", MAX_REPORT_BYTES), Report)
    except FileNotFoundError:
        raise UserError(
            f"{folder} has no report.json yet: its simulation is not finished; continue it with "
            "swarm-node simulate --resume"
        ) from None
    except (OSError, ValueError) as error:  # every error of msgspec is a ValueError
        raise UserError(
            f"{folder / 'report.json'} is not a report: {error}; it is damaged, run the simulation "
            "again"
        ) from error


PLOT = Command(PlotConfig, PAGE, command)
