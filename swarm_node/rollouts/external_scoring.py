"""When external groups are scored: as they are selected, or ahead of that, in a thread beside training, on a budget.

Whoever writes a completion decides what scoring it costs. So a node that others can reach scores ahead: a round selects
among groups that are scored already, and waits for none. What the thread may use is a share of the time that rounds
take. Half of it is for authors whose groups were scored quickly before, so that strangers cannot use up all of it.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Protocol

from protocol.messages import PeerId
from swarm_node.common.lru import Lru
from swarm_node.rollouts.groups import HUNG, ExternalGroup, ScoredGroup, Skipped

SHARE = 0.05  # of the time of rounds, for scoring external groups
AHEAD = 2  # informative groups that are kept ready, for each one that a round selects
QUICK = 10  # times what a local group takes: an author whose group took more is a stranger still
QUICK_SECONDS = 0.05  # but never less than so much
KEPT_AUTHORS = 1024

ScoreGroups = Callable[[Sequence[ExternalGroup]], list[ScoredGroup | Skipped]]


@dataclass(frozen=True, slots=True)
class Ready:
    """What of the groups that wait can be selected now, and what turned out to be no good."""

    groups: list[ExternalGroup]
    faults: list[tuple[ExternalGroup, str]] = field(default_factory=list)  # with the reason of the skip


class ExternalScoring(Protocol):
    """Scores the external groups of one node."""

    def ready(self, waiting: Sequence[ExternalGroup], wanted: int, local_seconds: float) -> Ready:
        """Once a round, before it selects `wanted` of them. `local_seconds`: what scoring a local group took."""
        ...

    def score(self, groups: Sequence[ExternalGroup]) -> list[ScoredGroup | Skipped]:
        """Of groups that are ready."""
        ...

    def close(self) -> None:
        """No more is scored."""
        ...


class ScoringInStep(ExternalScoring):
    """Scores what is selected, when it is: the same groups in the same rounds on every machine."""

    def __init__(self, score: ScoreGroups) -> None:
        self._score = score

    def ready(self, waiting: Sequence[ExternalGroup], wanted: int, local_seconds: float) -> Ready:
        return Ready(list(waiting))

    def score(self, groups: Sequence[ExternalGroup]) -> list[ScoredGroup | Skipped]:
        return self._score(groups)

    def close(self) -> None:
        pass


class Budget:
    """Seconds that may be spent. What was overspent is earned back first; what is left over is not saved up."""

    def __init__(self, share: float) -> None:
        self._share, self._left = share, 0.0

    @property
    def holds(self) -> bool:
        """Whether there is something to spend."""
        return self._left > 0

    def earn(self, seconds: float, least: float) -> None:
        """The share of so many seconds, or `least` if that is more."""
        earned = max(self._share * seconds, least)
        self._left = min(earned, self._left + earned)

    def spend(self, seconds: float) -> None:
        """It may come to less than nothing: what a group costs is known afterwards."""
        self._left -= seconds


class ScoringAhead(ExternalScoring):
    """Scores groups that wait, one at a time, until enough informative ones are ready for the next round."""

    def __init__(
        self,
        score: ScoreGroups,
        clock: Callable[[], float],
        rng: Random,
        prepare: Callable[[], object] = lambda: None,
    ) -> None:
        """`score` may take long and has processes of its own, which `prepare` starts: that is no group's doing. Call
        `start`, or `work` for what the thread would do."""
        self._prepare = prepare
        self._score, self._clock, self._rng = score, clock, rng
        self._waiting: list[ExternalGroup] = []  # in the order in which they will be scored
        self._results: dict[bytes, ScoredGroup | Skipped] = {}  # by content hash, of groups that still wait
        self._quick: Lru[PeerId, bool] = Lru(KEPT_AUTHORS)  # whether an author's last group was scored quickly
        self._budgets = {known: Budget(SHARE / 2) for known in (True, False)}
        self._wanted, self._local_seconds, self._asked_at = 0, 0.0, clock()
        self._changed, self._closed = threading.Condition(), False
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="scoring", daemon=True)

    def start(self) -> None:
        """Begin to score in a thread."""
        self._thread.start()

    def ready(self, waiting: Sequence[ExternalGroup], wanted: int, local_seconds: float) -> Ready:
        """Raises what the thread died of."""
        with self._changed:
            if self._error is not None:
                raise self._error
            now = self._clock()
            for budget in self._budgets.values():
                budget.earn(now - self._asked_at, local_seconds)
            self._asked_at, self._wanted, self._local_seconds = now, wanted, local_seconds
            hashes = {external.content_hash for external in waiting}
            self._results = {key: result for key, result in self._results.items() if key in hashes}
            rest = [external for external in waiting if external.content_hash not in self._results]
            self._waiting = self._rng.sample(rest, len(rest))
            self._changed.notify()
            found = [(external, self._results.get(external.content_hash)) for external in waiting]
        faults = [(external, result.reason) for external, result in found if isinstance(result, Skipped)]
        return Ready([external for external, result in found if isinstance(result, ScoredGroup)], faults)

    def score(self, groups: Sequence[ExternalGroup]) -> list[ScoredGroup | Skipped]:
        with self._changed:
            return [self._results[external.content_hash] for external in groups]

    def work(self) -> bool:
        """Score the next group, if there is one that may be scored now."""
        with self._changed:
            external = self._next()
            if external is None:
                return False
            self._waiting.remove(external)
        began = self._clock()
        (result,) = self._score([external])
        with self._changed:
            self._done(external, result, self._clock() - began)
        return True

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join()

    def _next(self) -> ExternalGroup | None:
        ready = sum(isinstance(result, ScoredGroup) and result.informative for result in self._results.values())
        if self._closed or ready >= AHEAD * self._wanted:
            return None
        return next((external for external in self._waiting if self._budget(external.author).holds), None)

    def _budget(self, author: PeerId) -> Budget:
        return self._budgets[bool(self._quick.peek(author))]

    def _done(self, external: ExternalGroup, result: ScoredGroup | Skipped, seconds: float) -> None:
        author = external.author
        self._results[external.content_hash] = result
        self._budget(author).spend(seconds)
        within = seconds <= max(QUICK_SECONDS, QUICK * self._local_seconds)
        self._quick.put(author, within and isinstance(result, ScoredGroup))
        if isinstance(result, Skipped) and result.reason in HUNG:
            self._waiting = [waiting for waiting in self._waiting if waiting.author != author]

    def _run(self) -> None:
        try:
            self._prepare()
            while not self._closed:
                if not self.work():
                    with self._changed:
                        self._changed.wait_for(lambda: self._closed or self._next() is not None)
        except BaseException as error:  # noqa: BLE001  raised in the trainer's next round
            self._error = error
