"""The fan-out: one `emit` for whoever has something to say, any number of listeners. It knows no listener by name."""

from collections.abc import Sequence
from types import TracebackType
from typing import Protocol, Self

from swarm_node.telemetry.events import Event


class Sink(Protocol):
    """One listener. Called in the order of emission, always from the same thread."""

    def take(self, event: Event) -> None:
        """Show or keep this event. Of what it raises, an OSError costs the sink its place, and nobody else anything."""
        ...

    def close(self) -> None:
        """No event comes after this."""
        ...


class Telemetry:
    """Hands every event to every sink. A sink whose output is gone (a closed pipe) is dropped: learning goes on."""

    def __init__(self, sinks: Sequence[Sink]) -> None:
        self._sinks = list(sinks)

    def emit(self, event: Event) -> None:
        """To every sink, in their order."""
        for sink in list(self._sinks):
            try:
                sink.take(event)
            except OSError:
                self._sinks.remove(sink)

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
