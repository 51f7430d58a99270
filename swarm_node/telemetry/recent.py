"""Facts about training for `status`. One thread brings the events, and another one reads the
facts.
"""

from collections import deque
from collections.abc import Callable
from statistics import median
from typing import Any

from swarm_node.telemetry.events import Event, Resting, RoundDone, Sink
from swarm_node.telemetry.terminal import wall_seconds

WINDOW = 20  # rounds
SHARED_WINDOW = 200  # rounds over which is counted how many trained on external groups


class RecentRounds(Sink):
    """A sink that remembers the last rounds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock`: seconds, monotonic."""
        self._clock = clock
        self._facts: dict[str, Any] = {}
        self._latest = clock()
        self._seconds: deque[float] = deque(maxlen=WINDOW)
        self._shared: deque[bool] = deque(maxlen=SHARED_WINDOW)
        self._own_groups, self._others_groups = 0, 0  # informative, trained on since the start
        self._resting = ""
        self._noted: dict[str, Any] = {}

    def take(self, event: Event) -> None:
        if isinstance(event, Resting):
            self._resting, self._latest = event.reason, self._clock()
        if not isinstance(event, RoundDone):
            return
        report = event.report
        self._shared.append(report.external_informative > 0)
        self._own_groups += report.local_informative
        self._others_groups += report.external_informative
        self._latest = self._clock()
        self._seconds.append(wall_seconds(report))
        self._facts = {
            "round": report.round,
            "round_seconds": round(median(self._seconds), 3),
            "reward": report.reward,
            "informative_share": report.informative_share,
            "external_informative": report.external_informative,
            "own_groups": self._own_groups,
            "others_groups": self._others_groups,
            "pool_size": report.pool_size,
            "waiting": event.waiting,
            "alone": event.alone,
            "shared_rounds": round(sum(self._shared) / len(self._shared), 3),
        }

    def note(self, name: str, value: Any) -> None:
        """Another fact to tell under this name; an empty value is skipped."""
        self._noted[name] = value

    def facts(self) -> dict[str, Any]:
        """Facts of the last round, and the seconds since it ended. Before the first: the seconds
        since the start.
        """
        resting = {"resting": self._resting} if self._resting else {}
        noted = {name: value for name, value in self._noted.items() if value}
        return {
            **self._facts,
            **noted,
            **resting,
            "seconds_since": round(self._clock() - self._latest, 1),
        }
