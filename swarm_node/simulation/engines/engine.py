"""The seam of the engines. A new one is a class here beside the others, and a name in `registry.py`."""

from collections.abc import Iterator
from typing import Protocol

from swarm_node.settings import SimulationConfig
from swarm_node.simulation.arms import Cell
from swarm_node.telemetry.events import CellRound


class Run(Protocol):
    """A cell that is being run, whatever its nodes are."""

    def rounds(self) -> Iterator[CellRound]:
        """Round by round, as they end."""
        ...

    def memory_mb(self) -> float:
        """Of everything that runs for it."""
        ...

    def close(self) -> None:
        """Ends whatever still runs."""
        ...


class Engine(Protocol):
    """Where and how the nodes of a cell run."""

    def check(self, config: SimulationConfig) -> None:
        """UserError for what this engine cannot do. Starts nothing."""
        ...

    def processes(self, config: SimulationConfig) -> int:
        """Processes that compute side by side for one cell."""
        ...

    def begin(self, config: SimulationConfig, cell: Cell) -> Run:
        """Called in the worker process of this cell. `config` is the cell's own."""
        ...

    def clean_up(self, config: SimulationConfig) -> None:
        """Remove what a simulation that ended by force has left running."""
        ...
