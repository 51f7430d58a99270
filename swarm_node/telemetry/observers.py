"""Observers: what listens to a run from its first second, such as a page, uploads, samples of rollouts and trackers.

The core knows none of them by name. A package registers a factory in the group `swarm_node.observers`, and every
registered factory is called at every start, with the whole configuration of that command. Only the factory knows which
options are its own: it returns None where they are off, or where the command does not have them.
"""

from collections.abc import Callable
from pathlib import Path

from swarm_node.common import plugins
from swarm_node.common.errors import UserError
from swarm_node.settings import Section
from swarm_node.telemetry.events import Event, Sink, Telemetry

Factory = Callable[[Path, Section, Telemetry], Sink | None]
"""Makes an observer of the run in this folder, or None. A factory returns at once: it may start a process, and leaves
threads to the event `Begun` and what is heavy to `RunStarted`. The observer takes all events in the thread that emits
them, and may emit its own while it takes one. `Telemetry.show` may be called at any time and in any thread."""


def observe(telemetry: Telemetry, folder: Path, config: Section) -> int:
    """Add every observer that this configuration asks for.

    Args:
        folder: of the run: the home of a node, or the report folder of a simulation.
        config: of the command, such as NodeConfig, BootstrapConfig or SimulationConfig.

    Returns:
        How many there are.

    Raises:
        UserError: an observer cannot be loaded, cannot begin, or finds a mistake in its options.
    """
    made = 0
    for name in plugins.registered("observers"):
        factory: Factory = plugins.load("observers", name)
        try:
            observer = factory(folder, config, telemetry)
        except UserError:
            raise
        except Exception as error:
            raise UserError(f"observer {name} cannot begin: {type(error).__name__}: {error}") from error
        if observer is not None:
            telemetry.add(Guarded(f"observer {name}", observer, telemetry.show))
            made += 1
    return made


class Guarded:
    """A sink that is left out when it raises, so that the run goes on. After an OSError it is asked again, as a full
    disk may have room again. A UserError passes and ends the run, as only the user can correct it."""

    def __init__(self, name: str, sink: Sink, warn: Callable[[str], None]) -> None:
        self._name, self._sink, self._warn = name, sink, warn
        self._failed = self._warned = False

    def take(self, event: Event) -> None:
        if not self._failed:
            self._try(lambda: self._sink.take(event))

    def close(self) -> None:
        self._try(self._sink.close)

    def _try(self, act: Callable[[], None]) -> None:
        try:
            act()
        except UserError:
            raise
        except OSError as error:
            if not self._warned:
                self._warned = True
                self._warn(f"{self._name} cannot write ({error.strerror}); the run goes on without some figures")
        except Exception as error:  # noqa: BLE001  whatever somebody's observer may raise
            self._failed = True
            self._warn(f"{self._name} failed and is left out: {type(error).__name__}: {error}")
