"""When external groups are scored: as a round selects them or, in a node that others can reach,
ahead of that, in a thread beside training, on a budget.

The author of a completion decides how long its scoring takes. So a node that others can reach
scores ahead: a round selects among groups that are scored already, and waits for none.

         trainer's thread                                   scoring thread

    round 7   candidates() ---- groups that wait ---------> score a few at a time, while
              select, train                                 a budget lasts and a round
                  :                                         needs more of them
    round 8   candidates() <--- results ------------------- (the list of what is left
              select, train ---- groups that wait --------> is thrown away)

Each call of `candidates` lends the thread the groups that wait, in an order drawn by chance in
which parties take turns (shares.py), and takes over what the thread has found out since the call
before. The inbox goes on holding the groups. So a group may be forgotten while it is lent, and its
result is then left out.

Two budgets bound the time. Known authors, whose last group was scored quickly, share a twentieth of
the time that rounds take or, if that is more, the time of as many honest groups as a round selects.
Strangers share half as much, or the time of one honest group, so that they cannot use up the time
of the others. The node measures that time on local groups, which nobody else can influence. After a
group that hung the scorer, no other one that its author has lent is scored.
"""

import threading
from collections.abc import Callable, Sequence
from random import Random
from typing import Protocol

from protocol.messages import PeerId
from swarm_node.common.batched import paired
from swarm_node.common.lru import Lru
from swarm_node.rollouts.groups import HUNG, Group
from swarm_node.rollouts.inbox import Inbox, Result, ScoreGroups

SHARE = 0.05  # of the time of rounds, for scoring groups of known authors
STRANGERS = 0.025  # of the time of rounds, for scoring those of strangers
AHEAD = 2  # informative groups that are kept ready, for each one that a round selects
QUICK = 10  # times what an honest group takes: an author whose group took more stays a stranger
MEASURED = 16  # rounds from one measurement of an honest group to the next
NEWEST = 0.3  # weight of the newest measurement
KEPT_AUTHORS = 1024
TOGETHER = 4  # groups that are scored in one call, of as many known authors


class ExternalScoring(Protocol):
    """Scores the external groups of one node."""

    def candidates(
        self, inbox: Inbox, wanted: int, local: Sequence[Group], with_rewards: bool = False
    ) -> list[Group]:
        """The groups in the inbox among which a round selects, the oldest first. Called once a
        round.

        Args:
            wanted: how many external groups the round selects, or as many as are configured if
                these are more.
            local: the groups that this node generated in the round.
            with_rewards: whether all of them must have rewards already.
        """
        ...

    def score(self, groups: Sequence[Group]) -> Sequence[Result]:
        """Scores candidates that have no rewards."""
        ...

    def close(self) -> None:
        """End scoring."""
        ...


class ScoringInStep(ExternalScoring):
    """Scores groups as they are selected: the same groups in the same rounds on every machine."""

    def __init__(self, score: ScoreGroups) -> None:
        self._score = score

    def candidates(
        self, inbox: Inbox, wanted: int, local: Sequence[Group], with_rewards: bool = False
    ) -> list[Group]:
        if with_rewards:
            waiting = inbox.waiting()
            for group, result in paired(waiting, self._score(waiting)):
                inbox.scored(group, result)
        return inbox.candidates()

    def score(self, groups: Sequence[Group]) -> Sequence[Result]:
        return self._score(groups)

    def close(self) -> None:
        pass


class TimeAllowance:
    """Seconds that may be spent. What was overspent is made up for first; what is left over is not
    saved.
    """

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
    """Scores groups that wait, a few at a time, until enough informative ones are ready for the
    next round.
    """

    def __init__(
        self,
        score: ScoreGroups,
        clock: Callable[[], float],
        rng: Random,
        prepare: Callable[[], object] = lambda: None,
    ) -> None:
        """`score` may take long. `prepare` starts its processes, so that no group is charged for
        their start. Call `start`, or call `work` to do in your own thread what the scoring thread
        does.
        """
        self._prepare = prepare
        self._score, self._clock, self._rng = score, clock, rng
        self._lent: list[Group] = []  # in the order in which they will be scored
        self._results: list[tuple[Group, Result]] = []  # not yet taken over by the inbox
        self._ready = 0  # informative groups, as of this round's candidates and found since
        # Whether an author's last group was scored quickly
        self._quick: Lru[PeerId, bool] = Lru(KEPT_AUTHORS)
        self._for_known, self._for_strangers = TimeAllowance(SHARE), TimeAllowance(STRANGERS)
        self._wanted, self._rounds, self._asked_at = 0, 0, clock()
        self._honest = 0.0  # seconds that scoring a local group takes here, once measured
        self._measured: Group | None = None  # a local group that is to be measured
        self._changed, self._closed = threading.Condition(), False
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="scoring", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def candidates(
        self, inbox: Inbox, wanted: int, local: Sequence[Group], with_rewards: bool = False
    ) -> list[Group]:
        """Returns the groups among which a round may choose: only those that are scored already.
        Raises the exception that ended the thread.
        """
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
            for group, result in self._results:
                inbox.scored(group, result)
            self._results = []
            candidates = inbox.with_rewards()
            # What is beyond a party's share is not ready: others' groups are scored in its place
            ready = inbox.in_turn(candidates)
            self._ready = sum(group.informative for group in ready)
            waiting = inbox.waiting()
            self._lent = inbox.in_turn(self._rng.sample(waiting, len(waiting)), ready)
            self._changed.notify()
        return candidates

    def score(self, groups: Sequence[Group]) -> Sequence[Result]:
        """Scores these groups now. In a round there are none: every candidate was scored ahead."""
        return self._score(groups)

    def work(self) -> bool:
        """Score the next groups, if there are some that may be scored now."""
        if self._measured is not None:
            self._measure()
        with self._changed:
            groups = self._next()
            taken = {external.id for external in groups}
            self._lent = [external for external in self._lent if external.id not in taken]
            budget = self._budget_of(groups[0].author) if groups else None
        if budget is None:
            return False
        began = self._clock()
        results = self._score(groups)
        with self._changed:
            seconds = self._clock() - began
            budget.spend(seconds)
            for external, result in paired(groups, results):
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
            self._score([local])
            seconds = self._clock() - began
            self._honest += (NEWEST if self._honest else 1.0) * (seconds - self._honest)

    def _next(self) -> list[Group]:
        """One group of a stranger, or a few of as many known authors, which cost less in one
        call.
        """
        missing = 0 if self._closed else AHEAD * self._wanted - self._ready
        first = next(
            (group for group in self._lent if missing > 0 and self._budget_of(group.author)), None
        )
        if first is None or not self._known(first.author):
            return [first] if first else []
        known: dict[PeerId, Group] = {}
        for group in self._lent:
            if self._known(group.author):
                known.setdefault(group.author, group)
        return [known.pop(first.author), *known.values()][: min(TOGETHER, missing)]

    def _known(self, author: PeerId) -> bool:
        return bool(self._quick.get(author))

    def _budget_of(self, author: PeerId) -> TimeAllowance | None:
        """The budget for a group of this author. Known authors may also use what strangers
        leave.
        """
        budgets = (
            [self._for_known, self._for_strangers] if self._known(author) else [self._for_strangers]
        )
        return next((budget for budget in budgets if budget.holds), None)

    def _done(self, external: Group, result: Result, seconds: float) -> None:
        author = external.author
        self._results.append((external, result))
        self._quick[author] = seconds <= QUICK * self._honest and isinstance(result, Group)
        if isinstance(result, Group):
            self._ready += result.informative
        elif result.reason in HUNG:
            self._lent = [group for group in self._lent if group.author != author]

    def _run(self) -> None:
        try:
            self._prepare()
            while not self._closed:
                if not self.work():
                    with self._changed:
                        self._changed.wait_for(
                            lambda: self._closed or bool(self._measured or self._next())
                        )
        except BaseException as error:  # noqa: BLE001  raised in the trainer's next round
            self._error = error
