"""The interface of engines. An engine is a class without arguments that is registered as an entry point of the group
`swarm_node.engines`; its name is what `--engine` takes."""

from collections.abc import Callable, Iterator
from typing import Protocol

from swarm_node.common import plugins
from swarm_node.extensions.simulation.arms import Cell
from swarm_node.extensions.simulation.worker_messages import FromWorker
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


class Worker(Protocol):
    """A worker at its cell."""

    def messages(self) -> Iterator[FromWorker]:
        """Gives it its order, and waits for what it says, until it ends."""
        ...

    def last_words(self) -> str:
        """How it ended, if its last message does not say so."""
        ...

    def lost(self) -> bool:
        """Whether it ended because its host did: the cell can begin anew elsewhere."""
        ...

    def kill(self) -> None:
        """Ends it, and all that it started."""
        ...


Launch = Callable[[Cell], Worker]


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

    def cells_at_once(self, config: SimulationConfig) -> int | None:
        """Cells that can run side by side; None where the cores of this machine decide."""
        ...

    def launch(self, config: SimulationConfig) -> Launch | None:
        """What starts a worker for a cell; None where workers are processes that this machine starts."""
        ...


class OnThisMachine:
    """What engines have in common whose workers this machine starts."""

    def cells_at_once(self, config: SimulationConfig) -> int | None:
        """The cores decide."""
        return None

    def launch(self, config: SimulationConfig) -> Launch | None:
        """See workers.local_launch."""
        return None


def engine_of(config: SimulationConfig) -> Engine:
    """The engine that the configuration names. UserError where no package registers it."""
    engine: Engine = plugins.load("engines", config.engine)()
    return engine
