"""Trackers by name. A tracker is a class that is made with the folder of the run: `telemetry.sinks.Sink`."""

from collections.abc import Callable
from pathlib import Path

from swarm_node.common import plugins
from swarm_node.common.errors import UserError
from swarm_node.settings import TrackingConfig
from swarm_node.telemetry.events import Event
from swarm_node.telemetry.sinks import Sink


class Guarded:
    """A tracker that is left out when it raises, so that the run goes on. A full disk may have room again: after an
    OSError it goes on."""

    def __init__(self, name: str, tracker: Sink, warn: Callable[[str], None]) -> None:
        self._name, self._tracker, self._warn = name, tracker, warn
        self._failed = self._warned = False

    def take(self, event: Event) -> None:
        if not self._failed:
            self._try(lambda: self._tracker.take(event))

    def close(self) -> None:
        self._try(self._tracker.close)

    def _try(self, act: Callable[[], None]) -> None:
        try:
            act()
        except OSError as error:
            if not self._warned:
                self._warned = True
                self._warn(
                    f"tracker {self._name} cannot write ({error.strerror}); the run goes on without some figures"
                )
        except Exception as error:  # noqa: BLE001  whatever somebody's tracker may raise
            self._failed = True
            self._warn(f"tracker {self._name} failed and is left out: {type(error).__name__}: {error}")


def build_trackers(config: TrackingConfig, folder: Path, warn: Callable[[str], None]) -> list[Sink]:
    """Those that the configuration names. UserError if one cannot be loaded or begun."""
    return [Guarded(name, _begun(name, folder), warn) for name in config.to]


def _begun(name: str, folder: Path) -> Sink:
    tracker = plugins.load("trackers", name)
    try:
        made: Sink = tracker(folder)
    except Exception as error:
        raise UserError(f"tracker {name} cannot begin: {type(error).__name__}: {error}") from error
    return made
