"""The interface of engines. A new engine is a class beside the others, and a name in `registry.py`."""

from collections.abc import Iterator
from typing import Protocol

from swarm_node.extensions.simulation.arms import Cell
from swarm_node.settings import SimulationConfig
from swarm_node.telemetry.events import CellRound


class Run(Protocol):
    """A running cell, whatever its nodes are."""

    def rounds(self) -> Iterator[CellRound]:
        """Rounds, as they end."""
        ...

    def memory_mb(self) -> float:
        """Memory of all that runs for it."""
        ...

    def close(self) -> None:
        """Ends all that still runs."""
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
        """Removes what a killed simulation left running."""
        ...
