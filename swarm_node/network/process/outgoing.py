"""From the trainer's rounds to announcements: no more often than others can use them, and none without a group.

Rounds may take 50 ms or an hour, and a round may have no group informative. So rounds that pass quickly are announced
together, and a short round is filled up with groups of the last ones, which are served all the same. Pure.
"""

from dataclasses import dataclass

from protocol.messages import Round
from swarm_node.network.exchange.store import SERVE_ROUNDS
from swarm_node.network.process.messages import Publish
from swarm_node.network.process.pace import MOST_SECONDS, QUICK_KILOBYTES, Pace

KEPT_SECONDS = 10.0  # a group of a past round is announced at least so long
FILLED = 8  # groups announced, where the last rounds wrote so many
MAX_WANTED = 24  # external groups per announcement


@dataclass(frozen=True, slots=True)
class _Group:
    envelope: bytes
    round: Round
    since: float  # seconds


class Outgoing:
    """Local groups of the last rounds, announced together where rounds are quick."""

    def __init__(self, rounds: int = SERVE_ROUNDS, kilobytes_per_minute: int = QUICK_KILOBYTES) -> None:
        """`rounds`: that groups stay available."""
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
        news = Publish(round=self._round, want=self._wanted, envelopes=envelopes, rounds=self._merged)
        self._pace.announced(now, spent)
        self._told, self._merged, self._fresh, self._wanted = now, 0, 0, 0
        return news
