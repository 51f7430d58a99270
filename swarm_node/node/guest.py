"""When a node that is a guest in somebody's home rests: told to by `pause`, outside its hours, or on battery; and what
it has exchanged with others in this calendar month.

A resting node stays in memory, since loading takes longer than connecting, and leaves the swarm: a user who pauses it
expects its network traffic to stop, too. The clock is that of the wall: nothing but these hours depends on it.
"""

import json
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import psutil

from swarm_node.common.files import read_plain, write_bytes
from swarm_node.settings.programs import PAUSE_FILE, VALIDATE_FILE, LimitsConfig, spans_of

TRAFFIC_FILE = "traffic.json"
KEPT_BYTES = 1_000_000  # so much may be forgotten by a kill


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
        self._file, self._asking = home / PAUSE_FILE, home / VALIDATE_FILE

    def resting(self) -> str:
        """Why it rests, for a person; "" where it does not."""
        if self._file.exists():
            return "told to by swarm-node pause; swarm-node resume goes on"
        if self._spans and not any(self._within(*span) for span in self._spans):
            return f"outside its hours, {self._config.hours}"
        if self._config.battery == "pause" and self._battery():
            return "on battery"
        return ""

    def asked(self) -> bool:
        """Whether somebody wants held-out questions asked now: said once."""
        try:
            self._asking.unlink()
        except OSError:
            return False
        return True

    def _within(self, start: int, end: int) -> bool:
        """Of the day; a span may go over midnight, and one that ends where it starts is the whole day."""
        now = self._now()
        minute = now.hour * 60 + now.minute
        return start <= minute < end if start < end else minute >= start or minute < end


class Traffic:
    """Counts on over restarts. What cannot be read or written is begun anew: nothing is kept from training by it."""

    def __init__(self, home: Path, megabytes: int, now: Callable[[], datetime] = datetime.now) -> None:
        """`megabytes`: of a month, 0 for no limit."""
        self._path, self._limit, self._now = home / TRAFFIC_FILE, megabytes * 1_000_000, now
        self._month, self._bytes = self._read()
        self._seen = 0  # bytes since the start of this process, as of the last look
        self._kept = self._bytes

    def exceeded(self, total: int) -> bool:
        """Whether the limit is reached. `total`: bytes since the start of this process."""
        month = self._now().strftime("%Y-%m")
        if month != self._month:
            self._month, self._bytes = month, 0
        self._bytes, self._seen = self._bytes + max(0, total - self._seen), total
        if abs(self._bytes - self._kept) >= KEPT_BYTES:
            self.save()
        return 0 < self._limit <= self._bytes

    @property
    def megabytes(self) -> float:
        """Of this month."""
        return round(self._bytes / 1e6, 1)

    def save(self) -> None:
        """For the next start."""
        with suppress(OSError):
            write_bytes(self._path, json.dumps({"month": self._month, "bytes": self._bytes}).encode())
            self._kept = self._bytes

    def _read(self) -> tuple[str, int]:
        try:
            kept = json.loads(read_plain(self._path, 1000))
            return str(kept["month"]), max(0, int(kept["bytes"]))
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return "", 0
