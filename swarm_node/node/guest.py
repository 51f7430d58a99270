"""When a node rests to make room for the user of its machine (after `pause`, outside its hours, on
battery, or while another program uses its card), and how many bytes it has exchanged with peers in
this calendar month.

A resting node stays in memory, since loading takes longer than connecting. It leaves the swarm,
since a user who pauses it expects its network traffic to stop, too. The wall clock tells hours and
months: nothing else depends on it here.
"""

import json
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import psutil

from swarm_node.common.files import write_bytes
from swarm_node.common.parsing import read_json
from swarm_node.settings.limits import PAUSE_FILE, VALIDATE_FILE, LimitsConfig, spans_of

TRAFFIC_FILE = "traffic.json"
KEPT_BYTES = 1_000_000  # a kill loses the count of at most so many


SUPPLIES = Path("/sys/class/power_supply")  # of Linux


def on_battery(supplies: Path = SUPPLIES) -> bool:
    """Whether this is a laptop that is not plugged in. False where the machine does not say.

    On Linux each supply has a folder. The battery of a mouse or a headset has one, too, with the
    scope "Device" (https://docs.kernel.org/power/power_supply_class.html): only the machine's own
    supplies count.
    """
    if not supplies.is_dir():
        return battery_says_so()
    own = [folder for folder in supplies.iterdir() if said_by(folder, "scope") != "Device"]
    plugged = any(said_by(folder, "online") == "1" for folder in own)
    batteries = [folder for folder in own if said_by(folder, "type") == "Battery"]
    draining = any(said_by(folder, "status") == "Discharging" for folder in batteries)
    return draining and not plugged


def said_by(supply: Path, name: str) -> str:
    """What a file of a supply says; "" where it has none."""
    try:
        return (supply / name).read_text(errors="replace").strip()
    except OSError:
        return ""


def battery_says_so() -> bool:
    """Whether a computer that is not Linux runs on its battery, as psutil knows it."""
    try:
        battery = psutil.sensors_battery()
    except (AttributeError, OSError):  # this system has no battery sensor
        return False
    return battery is not None and battery.power_plugged is False


class Guest:
    """Says whether the node should rest, and why. The loop asks between two rounds."""

    def __init__(
        self,
        config: LimitsConfig,
        home: Path,
        now: Callable[[], datetime] = datetime.now,
        battery: Callable[[], bool] = on_battery,
        card: Callable[[], str] = str,
    ) -> None:
        """`card` says why to rest for another program on the card, see card_use.py; "" for no
        reason.
        """
        self._spans = spans_of(config.hours)
        self._config, self._now, self._battery, self._card = config, now, battery, card
        self._file, self._asking = home / PAUSE_FILE, home / VALIDATE_FILE

    def resting(self) -> str:
        """Why the node should rest, for a person; "" where it should not."""
        if self._file.exists():
            return "paused by swarm-node pause; swarm-node resume lets it continue"
        if self._spans and not any(self._within(*span) for span in self._spans):
            return f"outside its hours, {self._config.hours}"
        if self._config.battery == "pause" and self._battery():
            return "on battery"
        return self._card()

    def asked(self) -> bool:
        """Whether a user asks for held-out questions now: True once for each request."""
        try:
            self._asking.unlink()
        except OSError:
            return False
        return True

    def _within(self, start: int, end: int) -> bool:
        """Whether it is now within this span. It may go over midnight; start and end alike mean all
        day.
        """
        now = self._now()
        minute = now.hour * 60 + now.minute
        return start <= minute < end if start < end else minute >= start or minute < end


class Traffic:
    """Counts bytes exchanged, over restarts. A count that cannot be read or written begins anew:
    training goes on.
    """

    def __init__(
        self, home: Path, megabytes: int, now: Callable[[], datetime] = datetime.now
    ) -> None:
        """`megabytes`: the limit for a calendar month; 0 for none."""
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
        """Megabytes exchanged this month."""
        return round(self._bytes / 1e6, 1)

    def save(self) -> None:
        """Write the count down for the next start."""
        with suppress(OSError):
            write_bytes(
                self._path, json.dumps({"month": self._month, "bytes": self._bytes}).encode()
            )
            self._kept = self._bytes

    def _read(self) -> tuple[str, int]:
        try:
            kept = read_json(self._path, 1000)
            return str(kept["month"]), max(0, int(kept["bytes"]))
        except (OSError, ValueError, KeyError, TypeError):
            return "", 0
