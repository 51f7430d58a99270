"""What a contributor may still use: requests a minute, tokens a day. It outlives a restart."""

import json
import os
from collections import deque
from collections.abc import Callable
from pathlib import Path

from swarm_node.common.files import write_json

DAY, MINUTE = 86400.0, 60.0


class Budget:
    """Counts what was used. `clock`: seconds since 1970, since days are those of the calendar (UTC)."""

    def __init__(self, tokens_per_day: int, requests_per_minute: int, file: Path, clock: Callable[[], float]) -> None:
        self._tokens, self._requests = tokens_per_day, requests_per_minute
        self._file, self._clock = file, clock
        self._times: deque[float] = deque(maxlen=requests_per_minute)
        self._day, self.used = self._load()

    def wait(self) -> float:
        """Seconds until the next request may be made; 0 where it may be made now."""
        now = self._clock()
        if self._tokens and self._today(now) >= self._tokens:
            return (self._day + 1) * DAY - now
        full = len(self._times) == self._requests
        return max(0.0, self._times[0] + MINUTE - now) if full else 0.0

    def request(self) -> None:
        """One is made now."""
        self._times.append(self._clock())

    def spend(self, tokens: int) -> None:
        """It took so many tokens."""
        self.used = self._today(self._clock()) + tokens
        write_json(self._file, {"day": self._day, "tokens": self.used})

    def _today(self, now: float) -> int:
        if int(now // DAY) != self._day:
            self._day, self.used = int(now // DAY), 0
        return self.used

    def _load(self) -> tuple[int, int]:
        try:
            known = json.loads(self._file.read_text())
            return int(known["day"]), int(known["tokens"])
        except (OSError, ValueError, KeyError, TypeError):
            return 0, 0


def take_key(file: Path | None, name: str = "SWARM_NODE_API_KEY") -> str:
    """The key of a server, out of the environment for good: no process started later inherits it. OSError."""
    key = os.environ.pop(name, "")
    return file.expanduser().read_text(encoding="utf-8").strip().partition("\n")[0] if file else key.strip()
