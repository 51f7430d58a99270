"""A cell whose nodes share one process and the swarm in memory."""

from collections.abc import Iterator

from swarm_node.config import SimulationConfig
from swarm_node.simulation.arms import Cell
from swarm_node.simulation.cell import Population, run_cell
from swarm_node.simulation.memory import family_mb
from swarm_node.telemetry.events import CellRound


class InMemoryRun:
    def __init__(self, config: SimulationConfig, cell: Cell, population: Population) -> None:
        self._config, self._cell, self._population = config, cell, population

    def rounds(self) -> Iterator[CellRound]:
        return run_cell(self._config, self._cell, self._population)

    def memory_mb(self) -> float:
        return family_mb()

    def close(self) -> None:
        self._population.close()
