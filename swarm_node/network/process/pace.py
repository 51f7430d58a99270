"""How long between two announcements: as short as the rounds are quick, within a bound of traffic. Pure.

The trainer's side hands out at the same pace what came, so that it lasts until more is expected.
"""

import math
from collections import deque

LEAST_SECONDS = 1.5  # others answer one exchange per second and peer, and a tenth more are due by the clock
MOST_SECONDS = 3.0  # rounds that take longer are announced one by one
ROUNDS = 4.0  # quick rounds that are announced together
WINDOW_SECONDS = 60.0  # over which traffic is looked at
RECENT = 8  # rounds whose length counts
QUICK_KILOBYTES = 6000  # a minute, both ways, within which rounds of less than 3 seconds are announced more often


class Pace:
    """Follows this node's rounds and the bytes that its announcements cost."""

    def __init__(self, kilobytes_per_minute: int = QUICK_KILOBYTES) -> None:
        self._bound = kilobytes_per_minute * 1000 / 60.0  # bytes per second
        self._rounds: deque[float] = deque(maxlen=RECENT + 1)  # seconds, when they were generated
        self._told: deque[tuple[float, int]] = deque()  # announcements: when, and all bytes up to then

    def generated(self, now: float) -> None:
        """A round has been generated."""
        self._rounds.append(now)

    def announced(self, now: float, spent: int) -> None:
        """An announcement is made; `spent`: bytes both ways since the start of this process."""
        self._told.append((now, spent))
        while now - self._told[0][0] > WINDOW_SECONDS:
            self._told.popleft()

    def seconds(self) -> float:
        """From one announcement to the next."""
        return min(MOST_SECONDS, max(LEAST_SECONDS, ROUNDS * self._round_seconds(), self._affordable()))

    def per_round(self, waiting: int) -> int:
        """How many of so many groups a round is given, so that they last until the next announcement brings more."""
        return math.ceil(waiting * min(1.0, self._round_seconds() / self.seconds()))

    def _round_seconds(self) -> float:
        if len(self._rounds) < 2:
            return MOST_SECONDS
        return (self._rounds[-1] - self._rounds[0]) / (len(self._rounds) - 1)

    def _affordable(self) -> float:
        """Seconds in which what an announcement costs, by those of the last minute, stays within the bound."""
        if len(self._told) < 2:
            return 0.0
        each = (self._told[-1][1] - self._told[0][1]) / (len(self._told) - 1)
        return each / self._bound
