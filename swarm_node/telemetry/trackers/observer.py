"""The trackers that `observers` names, as one observer. A tracker is a class that is made with the
folder of the run, and is a `telemetry.events.Sink`.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from swarm_node.common import plugins
from swarm_node.common.errors import UserError
from swarm_node.settings import LearningConfig, Section
from swarm_node.telemetry.events import Event, Guarded, RunStarted, Sink, Telemetry


def trackers(folder: Path, config: Section, telemetry: Telemetry) -> "Trackers | None":
    """The observer for a run; None where the configuration names no tracker."""
    if not isinstance(config, LearningConfig):
        return None
    # An observer of ours, no tracker
    names = [name for name in config.observers if name != "samples"]
    return Trackers(names, folder, telemetry.show) if names else None


class Trackers:
    """Begins its trackers when the run starts: some load torch, and others a large library."""

    def __init__(self, names: Sequence[str], folder: Path, warn: Callable[[str], None]) -> None:
        self._names, self._folder, self._warn = names, folder, warn
        self._begun: list[Guarded] = []

    def take(self, event: Event) -> None:
        """UserError where a tracker cannot be loaded or begun."""
        if isinstance(event, RunStarted):
            for name in self._names:
                self._begun.append(
                    Guarded(f"tracker {name}", _tracker(name, self._folder), self._warn)
                )
        for tracker in self._begun:
            tracker.take(event)

    def close(self) -> None:
        for tracker in self._begun:
            tracker.close()


def _tracker(name: str, folder: Path) -> Sink:
    tracker = plugins.load("trackers", name)
    try:
        made: Sink = tracker(folder)
    except Exception as error:
        raise UserError(
            f"the tracker {name} cannot start: {type(error).__name__}: {error}; solve this "
            "problem, or remove it from --observers"
        ) from error
    return made
