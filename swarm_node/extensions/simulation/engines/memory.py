"""All nodes of a cell in one process, on the swarm in memory: deterministic."""

from collections.abc import Iterator

from swarm_node.common.loading import quickly
from swarm_node.extensions.simulation.arms import Cell
from swarm_node.extensions.simulation.cell import Population, run_cell
from swarm_node.extensions.simulation.engines.engine import OnThisMachine, Run
from swarm_node.extensions.simulation.memory_use import family_cpu, family_mb
from swarm_node.settings import SimulationConfig
from swarm_node.telemetry.events import CellRound


class MemoryEngine(OnThisMachine):
    """Implements engine.Engine."""

    def check(self, config: SimulationConfig) -> None:
        pass

    def processes(self, config: SimulationConfig) -> int:
        return 1

    def begin(self, config: SimulationConfig, cell: Cell) -> Run:
        with quickly():
            from swarm_node.extensions.simulation.engines.population import LivePopulation  # now: it loads torch
        return InMemoryRun(config, cell, LivePopulation(config))

    def clean_up(self, config: SimulationConfig) -> None:
        pass


class InMemoryRun:
    """A cell whose nodes all live in this process."""

    def __init__(self, config: SimulationConfig, cell: Cell, population: Population) -> None:
        self._config, self._cell, self._population = config, cell, population

    def rounds(self) -> Iterator[CellRound]:
        return run_cell(self._config, self._cell, self._population, cpu=family_cpu)

    def memory_mb(self) -> float:
        return family_mb()

    def close(self) -> None:
        self._population.close()
