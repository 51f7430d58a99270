"""What a node has exchanged with others in this calendar month, and whether that is as much as it may."""

import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from swarm_node.common import private
from swarm_node.common.files import write_bytes

FILE = "traffic.json"
KEPT_BYTES = 1_000_000  # so much may be forgotten by a kill


class Traffic:
    """Counts on over restarts. What cannot be read or written is begun anew: nothing is kept from training by it."""

    def __init__(self, home: Path, megabytes: int, now: Callable[[], datetime] = datetime.now) -> None:
        """`megabytes`: of a month, 0 for no limit."""
        self._path, self._limit, self._now = home / FILE, megabytes * 1_000_000, now
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
        try:
            write_bytes(self._path, json.dumps({"month": self._month, "bytes": self._bytes}).encode())
            self._kept = self._bytes
        except OSError:
            pass

    def _read(self) -> tuple[str, int]:
        try:
            kept = json.loads(private.read_plain(self._path, 1000))
            return str(kept["month"]), max(0, int(kept["bytes"]))
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return "", 0
