"""The fan-out of events: one `emit`, any number of sinks."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Protocol, Self

from swarm_node.common.redaction import hidden
from swarm_node.telemetry.events import CellFailed, Event, Notice, RunFinished, Warned


class Sink(Protocol):
    """One receiver of events. Called in the order of emission, always from the same thread."""

    def take(self, event: Event) -> None:
        """Show or keep this event. A sink that raises OSError is dropped; the others go on."""
        ...

    def close(self) -> None:
        """Called last: no event comes after it."""
        ...


class Telemetry:
    """Hands every event to every sink. A sink whose output is gone (a closed pipe) is dropped, and training goes on."""

    def __init__(self, sinks: Sequence[Sink] = (), show: Callable[[str], None] = lambda text: None) -> None:
        """
        Args:
            show: prints a line on the user's terminal at once, in any thread. No sink gets the line.
        """
        self._sinks, self.show = list(sinks), show

    def add(self, sink: Sink) -> None:
        """From now on `sink` takes every event, after the sinks that are here already."""
        self._sinks.append(sink)

    def emit(self, event: Event) -> None:
        """To every sink, in their order; a sink may emit another event while it takes one. Text, which may be that of a
        library's error, is without secrets."""
        match event:
            case Notice(text) | Warned(text) | RunFinished(text):
                event = replace(event, text=hidden(text))
            case CellFailed(error=error):
                event = replace(event, error=hidden(error))
        for sink in list(self._sinks):
            try:
                sink.take(event)
            except OSError:
                self._sinks = [each for each in self._sinks if each is not sink]

    def close(self) -> None:
        while self._sinks:
            try:
                self._sinks.pop().close()
            except OSError:
                continue

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
