"""When a node that is a guest in somebody's home rests: told to by `pause`, outside its hours, or on battery.

A resting node stays in memory, since loading takes longer than connecting, and leaves the swarm: a user who pauses it
expects its network traffic to stop, too. The clock is that of the wall: nothing but these hours depends on it.
"""

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import psutil

from swarm_node.settings.guest import LimitsConfig, spans_of

PAUSE_FILE = "paused"  # in the home: it works for a node that runs, and for one that starts later


def on_battery() -> bool:
    """Whether this is a laptop that is not plugged in. False where the machine does not say."""
    try:
        battery = psutil.sensors_battery()
    except (AttributeError, OSError):  # no such thing on this system
        return False
    return battery is not None and battery.power_plugged is False


class Guest:
    """Says whether to rest, and why. Asked between two rounds."""

    def __init__(
        self,
        config: LimitsConfig,
        home: Path,
        now: Callable[[], datetime] = datetime.now,
        battery: Callable[[], bool] = on_battery,
    ) -> None:
        self._spans = spans_of(config.hours)
        self._config, self._now, self._battery = config, now, battery
        self._file = home / PAUSE_FILE

    def resting(self) -> str:
        """Why it rests, for a person; "" where it does not."""
        if self._file.exists():
            return "told to by swarm-node pause; swarm-node resume goes on"
        if self._spans and not any(self._within(*span) for span in self._spans):
            return f"outside its hours, {self._config.hours}"
        if self._config.battery == "pause" and self._battery():
            return "on battery"
        return ""

    def _within(self, start: int, end: int) -> bool:
        """Of the day; a span may go over midnight, and one that ends where it starts is the whole day."""
        now = self._now()
        minute = now.hour * 60 + now.minute
        return start <= minute < end if start < end else minute >= start or minute < end
