"""Runs a simulation as part of a study; an interrupted one continues where it stopped."""

import io
import json
from typing import Any

from rich.console import Console

from swarm_node.settings.simulation import SimulationConfig
from swarm_node.simulation.main import simulate


def simulated(config: SimulationConfig, quiet: bool = True) -> dict[str, Any]:
    """Runs the simulation of this configuration, or resumes it if its folder holds a manifest.
    Returns its report.
    """
    config = config.model_copy(update={"resume": (config.out / "manifest.json").exists()})
    console = Console(file=io.StringIO()) if quiet else Console()
    report: dict[str, Any] = json.loads(simulate(config, console).read_text())
    return report
