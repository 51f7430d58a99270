"""An engine runs the nodes of a cell: a class without arguments. choice.py lists them."""

import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import psutil

from swarm_node.common.channel import BrokenFrame, Channel, Failed
from swarm_node.common.children import ending, start, usable_cores, without_secrets
from swarm_node.common.errors import UserError
from swarm_node.common.loading import quickly
from swarm_node.environments.registry import handed
from swarm_node.settings.simulation import SimulationConfig
from swarm_node.simulation import worker_messages
from swarm_node.simulation.arms import Cell
from swarm_node.simulation.cell import Population, run_cell
from swarm_node.simulation.estimate import node_processes
from swarm_node.telemetry.simulated import CellRound


class RunningCell:
    """A running cell, whose nodes go round by round. An engine with real nodes overrides every
    method.
    """

    def __init__(self, config: SimulationConfig, cell: Cell, population: Population) -> None:
        self._config, self._cell, self._population = config, cell, population

    def rounds(self) -> Iterator[CellRound]:
        """Yields every round as it ends."""
        return run_cell(self._config, self._cell, self._population, cpu=family_cpu)

    def memory_mb(self) -> float:
        """The resident memory of all processes of this cell, in MB."""
        return family_mb()

    def close(self) -> None:
        self._population.close()


class Worker(Protocol):
    """A worker that runs one cell."""

    def messages(self) -> Iterator[worker_messages.FromWorker]:
        """Yields its messages until it ends."""
        ...

    def last_words(self) -> str:
        """How the worker ended, where no message of its own says so."""
        ...

    def was_killed(self) -> bool:
        """Whether a signal ended the worker."""
        ...

    def lost(self) -> bool:
        """Whether it ended because its host did: its cell can begin anew elsewhere."""
        return False

    def kill(self) -> None:
        """Ends the worker and all that it has started."""
        ...


class LocalWorker(Worker):
    """A worker process of this machine."""

    def __init__(
        self,
        command: Sequence[str],
        log: Path,
        environment: Mapping[str, str],
        order: worker_messages.RunCell,
    ) -> None:
        """`log`: the file for what the process prints."""
        self._order = order
        self._process, self._connection = start(command, log, environment)

    def messages(self) -> Iterator[worker_messages.FromWorker]:
        """Sends the order to the process, and yields its messages until it ends."""
        talk = worker_messages.WORKER
        with self._connection as connection:
            channel = Channel(connection, connection, talk.up, talk.down)
            with suppress(OSError, ValueError):  # it died at once, or was killed
                channel.send(self._order)
            try:
                while (message := channel.receive()) is not None:
                    yield message
            except BrokenFrame as error:
                yield Failed(f"the worker sent nonsense: {error}", by_user=False)

    def last_words(self) -> str:
        code = self._process.wait()
        return f"the worker {ending(code)}" + (" and no message" if code >= 0 else "")

    def was_killed(self) -> bool:
        return self._process.wait() < 0

    def kill(self) -> None:
        """Kills the process group, also after a normal end, so that nothing that a worker started
        outlives it.
        """
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


Launch = Callable[[Cell], Worker]


class Engine:
    """Where and how the nodes of a cell run. This one is `memory`: on the swarm in memory, in one
    process or in several, so that a run is deterministic. Other engines override what they do
    differently.
    """

    def check(self, config: SimulationConfig) -> None:
        """UserError for options that this engine does not support. Starts nothing."""
        if config.model.devices not in ("auto", "1"):
            raise UserError(
                f"--model.devices {config.model.devices} is for real nodes: give --engine process, "
                "or leave it out"
            )

    def processes(self, config: SimulationConfig) -> int:
        """Processes that compute side by side for one cell, at least."""
        return min(config.node_processes or 1, config.nodes)

    def node_processes(
        self, config: SimulationConfig, todo: Sequence[Cell], at_once: int
    ) -> Mapping[Cell, int]:
        """Over how many processes each cell spreads its nodes; 1 for those not named."""
        return node_processes(config, todo, at_once)

    def begin(self, config: SimulationConfig, cell: Cell) -> RunningCell:
        """Begins a cell, in its worker process. `config` is the cell's own."""
        with quickly():
            # Now: they load torch
            from swarm_node.simulation.engines.population import LivePopulation
            from swarm_node.simulation.engines.spread import SpreadPopulation
        if config.node_processes > 1:
            return RunningCell(config, cell, SpreadPopulation(config, config.node_processes))
        return RunningCell(config, cell, LivePopulation(config))

    def cells_at_once(self, config: SimulationConfig) -> int:
        """Cells that can run side by side: as many as the cores of this machine suffice for."""
        return max(1, usable_cores() // (self.processes(config) * (config.threads or 1)))

    def launch(
        self,
        config: SimulationConfig,
        log: Callable[[Cell], Path],
        command: Sequence[str],
        processes: Mapping[Cell, int],
    ) -> Launch:
        """A function that starts a worker for a cell. `command`: of the worker; `log`: the file for
        its output; `processes`: as `node_processes` says.
        """
        environment = without_secrets(
            {**handed(config), **worker_messages.node_environment(config)}
        )

        def launch(cell: Cell) -> Worker:
            own = config.model_copy(update={"node_processes": processes.get(cell, 1)})
            order = worker_messages.write_order(own, cell)
            return LocalWorker(command, log(cell), environment, order)

        return launch


def family(pid: int | None = None) -> list[psutil.Process]:
    """A process, this one by default, and its living descendants, such as scoring processes."""
    with suppress(psutil.Error):
        head = psutil.Process(pid or os.getpid())
        return [head, *head.children(recursive=True)]
    return []


def family_mb(pid: int | None = None) -> float:
    """The resident memory of a process, this one by default, and its living descendants, in MB."""
    return round(sum(_measured(pid, lambda process: process.memory_info().rss)) / 1e6, 1)


def family_cpu() -> float:
    """CPU seconds of this process and its descendants."""
    return sum(_measured(None, lambda process: sum(process.cpu_times()[:2])))


def _measured(pid: int | None, measure: Callable[[psutil.Process], float]) -> Iterator[float]:
    for process in family(pid):
        with suppress(psutil.Error):  # ended meanwhile
            yield measure(process)
