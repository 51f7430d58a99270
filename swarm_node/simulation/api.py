"""Simulations for scripts and notebooks: `swarm_node.simulate` and `swarm_node.load_report`."""

from pathlib import Path
from typing import Any

from swarm_node.common.console import Terminal
from swarm_node.common.errors import UserError
from swarm_node.common.parsing import read_json
from swarm_node.settings.of_script import combined
from swarm_node.settings.simulation import SimulationConfig
from swarm_node.simulation import main
from swarm_node.simulation.folder import MAX_REPORT_BYTES


def simulate(config: SimulationConfig | Path | str, **options: Any) -> dict[str, Any]:
    """Runs many nodes in one experiment, as `swarm-node simulate` does. Returns the report.
    `config`: a configuration, a file, or the name of a shipped one; `options` change it. UserError,
    in one line, for a mistake.
    """
    made = combined(SimulationConfig, config, options)
    return load_report(main.simulate(made, Terminal(quiet=True)))


def load_report(path: Path | str) -> dict[str, Any]:
    """Reads a report.json, by its path or its folder; docs/reference/report.md explains it.
    UserError if it is none.
    """
    file = Path(path).expanduser()
    file = file / "report.json" if file.is_dir() else file
    try:
        report: dict[str, Any] = read_json(file, MAX_REPORT_BYTES)
    except (OSError, ValueError) as error:
        raise UserError(
            f"{file} is not a report: {error}; it is damaged, run the simulation again"
        ) from error
    return report
