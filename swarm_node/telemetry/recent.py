"""Facts about training for `status`. Events come in one thread, and another one reads."""

from collections import deque
from collections.abc import Callable
from statistics import median
from typing import Any

from swarm_node.telemetry.events import Event, RoundDone
from swarm_node.telemetry.terminal import wall_seconds

WINDOW = 20  # rounds


class RecentRounds:
    """A sink that remembers the last rounds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock`: seconds, monotonic."""
        self._clock = clock
        self._facts: dict[str, Any] = {}
        self._latest = clock()
        self._seconds: deque[float] = deque(maxlen=WINDOW)

    def take(self, event: Event) -> None:
        if not isinstance(event, RoundDone):
            return
        report = event.report
        self._latest = self._clock()
        self._seconds.append(wall_seconds(report))
        self._facts = {
            "round": report.round,
            "round_seconds": round(median(self._seconds), 3),
            "reward": round(report.reward, 4),
            "informative_share": round(report.informative_share, 4),
            "external_informative": report.external_informative,
            "pool_size": report.pool_size,
        }

    def close(self) -> None:
        pass

    def facts(self) -> dict[str, Any]:
        """Facts of the last round, and the seconds since it ended. Before the first: the seconds since the start."""
        return {**self._facts, "seconds_since": round(self._clock() - self._latest, 1)}
