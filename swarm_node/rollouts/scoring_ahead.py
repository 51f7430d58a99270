"""When external groups are scored: as they are selected, or ahead of that, in a thread beside training, on a budget.

The author of a completion decides how long its scoring takes. So a node that others can reach scores ahead. A round
selects among groups that are scored already, and waits for none. Known authors, whose last group was scored quickly,
share a twentieth of the time that rounds take, or what as many honest groups take as a round selects. Strangers share
half as much, or what one honest group takes, so that they cannot use up what is for the others. What an honest group
takes is measured on local groups, which nobody else can influence.
"""

import threading
from collections.abc import Callable, Sequence
from random import Random
from typing import Protocol

from protocol.messages import PeerId, RolloutGroup
from swarm_node.common.lru import Lru
from swarm_node.rollouts.groups import HUNG, ExternalGroup, ScoredGroup, Skipped

SHARE = 0.05  # of the time of rounds, for scoring groups of known authors
STRANGERS = 0.025  # of the time of rounds, for scoring those of strangers
AHEAD = 2  # informative groups that are kept ready, for each one that a round selects
QUICK = 10  # times what an honest group takes: an author whose group took more stays a stranger
MEASURED = 16  # rounds from one measurement of an honest group to the next
NEWEST = 0.3  # weight of the newest measurement
KEPT_AUTHORS = 1024
TOGETHER = 4  # groups that are scored in one call, of as many known authors

ScoreGroups = Callable[[Sequence[ExternalGroup]], list[ScoredGroup | Skipped]]
Ready = tuple[list[ExternalGroup], list[tuple[ExternalGroup, str]]]
"""Waiting groups that can be selected now, and those that could not be scored, with the reason."""


class ExternalScoring(Protocol):
    """Scores the external groups of one node."""

    def ready(self, waiting: Sequence[ExternalGroup], wanted: int, local: Sequence[RolloutGroup]) -> Ready:
        """Once a round, before it selects `wanted` of them. `local`: what this node generated."""
        ...

    def score(self, groups: Sequence[ExternalGroup]) -> list[ScoredGroup | Skipped]:
        """The scores of groups that are ready."""
        ...

    def close(self) -> None:
        """Ends scoring."""
        ...


class ScoringInStep(ExternalScoring):
    """Scores what is selected, when it is: the same groups in the same rounds on every machine."""

    def __init__(self, score: ScoreGroups) -> None:
        self._score = score

    def ready(self, waiting: Sequence[ExternalGroup], wanted: int, local: Sequence[RolloutGroup]) -> Ready:
        return list(waiting), []

    def score(self, groups: Sequence[ExternalGroup]) -> list[ScoredGroup | Skipped]:
        return self._score(groups)

    def close(self) -> None:
        pass


class Budget:
    """Seconds that may be spent. What was overspent is made up for first; what is left over is not saved."""

    def __init__(self, share: float) -> None:
        self._share, self._left = share, 0.0

    @property
    def holds(self) -> bool:
        """Whether there is something to spend."""
        return self._left > 0

    def earn(self, seconds: float, least: float) -> None:
        """Adds the share of these seconds, or `least` if that is more."""
        earned = max(self._share * seconds, least)
        self._left = min(earned, self._left + earned)

    def spend(self, seconds: float) -> None:
        """What is left may become negative, since the time of a group is known only afterwards."""
        self._left -= seconds


class ScoringAhead(ExternalScoring):
    """Scores groups that wait, a few at a time, until enough informative ones are ready for the next round."""

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
        self._results: dict[bytes, ScoredGroup | Skipped] = {}  # by id, of groups that still wait
        self._quick: Lru[PeerId, bool] = Lru(KEPT_AUTHORS)  # whether an author's last group was scored quickly
        self._for_known, self._for_strangers = Budget(SHARE), Budget(STRANGERS)
        self._wanted, self._rounds, self._asked_at = 0, 0, clock()
        self._honest = 0.0  # seconds that scoring a local group takes here, once measured
        self._measured: RolloutGroup | None = None  # a local group that is to be measured
        self._changed, self._closed = threading.Condition(), False
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="scoring", daemon=True)

    def start(self) -> None:
        """Begin to score in a thread."""
        self._thread.start()

    def ready(self, waiting: Sequence[ExternalGroup], wanted: int, local: Sequence[RolloutGroup]) -> Ready:
        """Raises the exception that ended the thread."""
        with self._changed:
            if self._error is not None:
                raise self._error
            now = self._clock()
            self._for_known.earn(now - self._asked_at, wanted * self._honest)
            self._for_strangers.earn(now - self._asked_at, self._honest)
            self._asked_at, self._wanted = now, wanted
            if local and self._rounds % MEASURED == 0:
                self._measured = local[0]
            self._rounds += 1
            hashes = {external.id for external in waiting}
            self._results = {key: result for key, result in self._results.items() if key in hashes}
            rest = [external for external in waiting if external.id not in self._results]
            self._waiting = self._rng.sample(rest, len(rest))
            self._changed.notify()
            found = [(external, self._results.get(external.id)) for external in waiting]
        faults = [(external, result.reason) for external, result in found if isinstance(result, Skipped)]
        return [external for external, result in found if isinstance(result, ScoredGroup)], faults

    def score(self, groups: Sequence[ExternalGroup]) -> list[ScoredGroup | Skipped]:
        with self._changed:
            return [self._results[external.id] for external in groups]

    def work(self) -> bool:
        """Score the next groups, if there are some that may be scored now."""
        if self._measured is not None:
            self._measure()
        with self._changed:
            groups = self._next()
            taken = {external.id for external in groups}
            self._waiting = [external for external in self._waiting if external.id not in taken]
            budget = self._budget_of(groups[0].author) if groups else None
        if budget is None:
            return False
        began = self._clock()
        results = self._score(groups)
        with self._changed:
            seconds = self._clock() - began
            budget.spend(seconds)
            for external, result in zip(groups, results, strict=True):
                self._done(external, result, seconds / len(groups))
        return True

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join()

    def _measure(self) -> None:
        with self._changed:
            local, self._measured = self._measured, None
        if local is not None:
            began = self._clock()
            self._score([ExternalGroup(local, b"")])
            seconds = self._clock() - began
            self._honest += (NEWEST if self._honest else 1.0) * (seconds - self._honest)

    def _next(self) -> list[ExternalGroup]:
        """One group of a stranger, or a few of as many known authors, which are cheaper together."""
        ready = sum(isinstance(result, ScoredGroup) and result.informative for result in self._results.values())
        missing = 0 if self._closed else AHEAD * self._wanted - ready
        first = next((each for each in self._waiting if missing > 0 and self._budget_of(each.author)), None)
        if first is None or not self._known(first.author):
            return [first] if first else []
        known = {each.author: each for each in reversed(self._waiting) if self._known(each.author)}
        return [known.pop(first.author), *known.values()][: min(TOGETHER, missing)]

    def _known(self, author: PeerId) -> bool:
        return bool(self._quick.get(author))

    def _budget_of(self, author: PeerId) -> Budget | None:
        """The budget for a group of this author. Known authors may also use what strangers leave."""
        budgets = [self._for_known, self._for_strangers] if self._known(author) else [self._for_strangers]
        return next((budget for budget in budgets if budget.holds), None)

    def _done(self, external: ExternalGroup, result: ScoredGroup | Skipped, seconds: float) -> None:
        author = external.author
        self._results[external.id] = result
        self._quick[author] = seconds <= QUICK * self._honest and isinstance(result, ScoredGroup)
        if isinstance(result, Skipped) and result.reason in HUNG:
            self._waiting = [waiting for waiting in self._waiting if waiting.author != author]

    def _run(self) -> None:
        try:
            self._prepare()
            while not self._closed:
                if not self.work():
                    with self._changed:
                        self._changed.wait_for(lambda: self._closed or bool(self._measured or self._next()))
        except BaseException as error:  # noqa: BLE001  raised in the trainer's next round
            self._error = error
