"""Turns the trainer's rounds into announcements: no more often than other peers can use them, and
none without a group.

Rounds may take 50 ms or an hour, and a round may have no informative group. So quick rounds are
announced together, within a bound of traffic, and a round with few groups is filled up with groups
of the last rounds, which are still served. The trainer's side hands out received groups at the same
pace, so that they last until more are expected. Pure.
"""

import math
from collections import deque
from dataclasses import dataclass

from protocol.messages import Round
from swarm_node.network.actions import SERVE_ROUNDS
from swarm_node.network.process.messages import Publish

# Peers answer a caller one exchange per second, and the clock makes a tenth more due
LEAST_SECONDS = 1.5
MOST_SECONDS = 3.0  # rounds that take longer are announced one by one
ROUNDS = 4.0  # quick rounds that are announced together
WINDOW_SECONDS = 60.0  # over which traffic is measured
RECENT = 8  # rounds over which their length is averaged
# A minute, both ways: within it, rounds of less than 3 seconds are announced more often
QUICK_KILOBYTES = 6000


class Pace:
    """Follows this node's rounds and the bytes that its announcements cost."""

    def __init__(self, kilobytes_per_minute: int = QUICK_KILOBYTES) -> None:
        self._bound = kilobytes_per_minute * 1000 / 60.0  # bytes per second
        self._rounds: deque[float] = deque(maxlen=RECENT + 1)  # seconds, when they were generated
        # Announcements: when, and all bytes up to then
        self._told: deque[tuple[float, int]] = deque()

    def generated(self, now: float) -> None:
        """A round has been generated."""
        self._rounds.append(now)

    def announced(self, now: float, spent: int) -> None:
        """An announcement is made; `spent`: bytes both ways since the start of this process."""
        self._told.append((now, spent))
        while now - self._told[0][0] > WINDOW_SECONDS:
            self._told.popleft()

    def seconds(self) -> float:
        """Seconds from one announcement to the next."""
        return min(
            MOST_SECONDS, max(LEAST_SECONDS, ROUNDS * self._round_seconds(), self._affordable())
        )

    def per_round(self, waiting: int) -> int:
        """How many of `waiting` groups a round gets, so that they last until the next announcement
        brings more.
        """
        return math.ceil(waiting * min(1.0, self._round_seconds() / self.seconds()))

    def _round_seconds(self) -> float:
        if len(self._rounds) < 2:
            return MOST_SECONDS
        return (self._rounds[-1] - self._rounds[0]) / (len(self._rounds) - 1)

    def _affordable(self) -> float:
        """Seconds between announcements that cost as much as those of the last minute, to stay
        within the bound.
        """
        if len(self._told) < 2:
            return 0.0
        each = (self._told[-1][1] - self._told[0][1]) / (len(self._told) - 1)
        return each / self._bound


KEPT_SECONDS = 10.0  # a group of a past round is announced at least so long
FILLED = 8  # groups in an announcement at least, if the last rounds have so many
MAX_WANTED = 24  # external groups per announcement


@dataclass(frozen=True, slots=True)
class _Group:
    envelope: bytes
    round: Round
    since: float  # seconds


class Outgoing:
    """Local groups of the last rounds, announced together where rounds are quick."""

    def __init__(
        self, rounds: int = SERVE_ROUNDS, kilobytes_per_minute: int = QUICK_KILOBYTES
    ) -> None:
        """`rounds`: how many rounds a group stays available."""
        self._rounds = rounds
        self._pace = Pace(kilobytes_per_minute)
        self._groups: list[_Group] = []  # newest last
        self._round = Round(0)
        self._fresh = 0  # groups not announced yet
        self._wanted = 0
        self._merged = 0  # rounds not announced yet
        self._told = -MOST_SECONDS  # seconds, when the last announcement was made

    def add(self, news: Publish, now: float) -> None:
        """A round has been generated."""
        self._pace.generated(now)
        self._merged += 1
        self._round = news.round
        self._wanted = min(MAX_WANTED, self._wanted + news.want)
        self._fresh += len(news.envelopes)
        self._groups += [_Group(envelope, news.round, now) for envelope in news.envelopes]

    def delay(self, now: float) -> float:
        """Seconds until the next announcement may be made; 0 or less: at once."""
        return self._told + self._pace.seconds() - now

    def due(self, now: float, spent: int = 0) -> Publish | None:
        """What to announce now, if anything. `spent`: bytes of traffic so far."""
        if not self._merged or self.delay(now) > 0:
            return None
        oldest, before = self._round - self._rounds, now - KEPT_SECONDS
        kept = [group for group in self._groups if group.round > oldest or group.since > before]
        self._groups = kept[-max(self._fresh, FILLED) :]
        envelopes = tuple(group.envelope for group in self._groups)
        news = Publish(
            round=self._round, want=self._wanted, envelopes=envelopes, rounds=self._merged
        )
        self._pace.announced(now, spent)
        self._told, self._merged, self._fresh, self._wanted = now, 0, 0, 0
        return news
