"""External groups from their arrival to their selection: those that wait, how they are scored, and
those selected that may serve another round.

The pool bounds waiting groups in age, number and per peer. It keeps them under author and question,
and never looks into them. A node scores them as it selects them, or ahead of that, in a thread
beside training, on a budget.

The author of a completion decides how long its scoring takes. So a node that others can reach
scores ahead. A round selects among groups that are scored already, and waits for none. Known
authors, whose last group was scored quickly, share a twentieth of the time that rounds take or, if
that is more, the time of as many honest groups as a round selects. Strangers share half as much, or
the time of one honest group, so that they cannot use up the time of the others. The node measures
that time on local groups, which nobody else can influence.
"""

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Protocol

from protocol.messages import PeerId, Question, RolloutGroup, Round
from swarm_node.common.batched import paired
from swarm_node.common.lru import Lru
from swarm_node.rollouts.groups import HUNG, Group, Skipped

MAX_AGE = 2  # rounds that a group stays available after its arrival
MAX_GROUPS = 1024  # held at most; the oldest go first
MAX_PER_PEER = 32  # held of any one peer
SHARE = 0.05  # of the time of rounds, for scoring groups of known authors
STRANGERS = 0.025  # of the time of rounds, for scoring those of strangers
AHEAD = 2  # informative groups that are kept ready, for each one that a round selects
QUICK = 10  # times what an honest group takes: an author whose group took more stays a stranger
MEASURED = 16  # rounds from one measurement of an honest group to the next
NEWEST = 0.3  # weight of the newest measurement
KEPT_AUTHORS = 1024
MAX_ASKED = 64  # groups whose questions were asked and not answered
TOGETHER = 4  # groups that are scored in one call, of as many known authors

Key = tuple[PeerId, Question]  # author, and the question that it answered
ScoreGroups = Callable[[Sequence[Group]], list[Group | Skipped]]
Ready = tuple[list[Group], list[tuple[Group, str]]]
"""Waiting groups that can be selected now, and those that could not be scored, with the reason."""


class RolloutPool:
    """Waiting groups, the oldest first. A group (author and question) enters at most once while it
    is remembered.
    """

    def __init__(
        self,
        local_id: PeerId,
        max_age: int = MAX_AGE,
        max_groups: int = MAX_GROUPS,
        max_per_peer: int = MAX_PER_PEER,
    ) -> None:
        self._local_id = local_id
        self._max_age, self._max_groups, self._max_per_peer = max_age, max_groups, max_per_peer
        # With the round of arrival, by this node's count of rounds: a sender's clock is never
        # trusted.
        self._waiting: dict[Key, tuple[Group, Round]] = {}
        self._spent: dict[Key, Round] = {}  # selected or dropped
        # Authors of whom nothing is taken in, since that round
        self._shunned: dict[PeerId, Round] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, groups: Iterable[Group], now: Round) -> None:
        """Take in the groups that arrived in round `now`. Drop groups that are too old or too
        many.
        """
        oldest = now - self._max_age
        self._shunned = {
            author: since for author, since in self._shunned.items() if since >= oldest
        }
        for group in groups:
            key = (group.author, group.question)
            known = key in self._waiting or key in self._spent
            if group.author != self._local_id and group.author not in self._shunned and not known:
                self._waiting[key] = group, now
        self._waiting = {k: entry for k, entry in self._waiting.items() if entry[1] >= oldest}
        self._spent = {k: arrived for k, arrived in self._spent.items() if arrived >= oldest}
        self._enforce_quotas()

    def candidates(self) -> list[Group]:
        """All waiting groups."""
        return [group for group, _ in self._waiting.values()]

    def remove(self, groups: Iterable[Group]) -> None:
        """Drop groups, and remember that they were used: none is used twice, even if it arrives
        again.
        """
        for group in groups:
            _, self._spent[group.author, group.question] = self._waiting.pop(
                (group.author, group.question)
            )

    def shun(self, authors: Iterable[PeerId], now: Round) -> None:
        """Drop all groups of these authors, and take in none of theirs for as long as a group may
        wait.
        """
        self._shunned.update(dict.fromkeys(authors, now))
        self._waiting = {
            k: entry for k, entry in self._waiting.items() if k[0] not in self._shunned
        }

    def snapshot(self) -> dict[str, list[tuple[int, str]]]:
        """Plain data for a checkpoint: waiting groups, and those that must not be used again."""
        return {
            "waiting": [
                (arrived, f"{group.id.hex()} {group.message().model_dump_json()}")
                for group, arrived in self._waiting.values()
            ],
            "spent": [
                (r, f"{author} {question.model_dump_json()}")
                for (author, question), r in self._spent.items()
            ],
        }

    def restore(self, snapshot: dict[str, list[tuple[int, str]]]) -> None:
        """The inverse of `snapshot`. Waiting groups of version 0.1 have no id and are left out:
        they come again.
        """
        waiting = [
            (_received(*text.split(" ", 1)), Round(r))
            for r, text in snapshot["waiting"]
            if text[0] != "{"
        ]
        self._waiting = {(each.author, each.question): (each, r) for each, r in waiting}
        spent = [(text.split(" ", 1), r) for r, text in snapshot["spent"]]
        self._spent = {
            (PeerId(a), Question.model_validate_json(q)): Round(r) for (a, q), r in spent
        }

    def _enforce_quotas(self) -> None:
        held: dict[PeerId, int] = {}
        kept: dict[Key, tuple[Group, Round]] = {}
        for key, entry in reversed(self._waiting.items()):  # the newest stay
            author = key[0]
            held[author] = held.get(author, 0) + 1
            if held[author] <= self._max_per_peer and len(kept) < self._max_groups:
                kept[key] = entry
        self._waiting = dict(reversed(kept.items()))


def _received(name: str, text: str) -> Group:
    return Group.received(RolloutGroup.model_validate_json(text), bytes.fromhex(name))


@dataclass(slots=True)
class Serving:
    """A group that serves several rounds."""

    group: Group
    since: float  # time of its first round in seconds
    rounds: int = 1  # that it has served


class Reuse:
    """External groups that serve several quick rounds: a round may take 50 ms, the network brings
    groups once a second.

    Bounded in rounds and in seconds, so that rounds which take long use every group once, as the
    paper does. Simulations never use a group twice. Groups are kept as they were selected, scored
    and screened once. A checkpoint has none of them: seconds later they would be forgotten in any
    case.
    """

    def __init__(self, rounds: int, seconds: float) -> None:
        """A group serves `rounds` rounds at most, and none later than `seconds` after its first."""
        self._rounds, self._seconds = rounds, seconds
        self._used: list[Serving] = []

    def waiting(self, now: float) -> int:
        """Groups that may serve another round."""
        self._used = [
            serving
            for serving in self._used
            if now - serving.since <= self._seconds and serving.rounds < self._rounds
        ]
        return len(self._used)

    def select(self, count: int, now: float, random: Random) -> list[Group]:
        """Up to `count` groups that served a round before. Where it may find none, it draws no
        random number.
        """
        waiting = self.waiting(now)
        if count <= 0 or not waiting:
            return []
        chosen = random.sample(self._used, min(count, waiting))
        for serving in chosen:
            serving.rounds += 1
        return [serving.group for serving in chosen]

    def add(self, groups: Sequence[Group], now: float) -> None:
        """Remember groups that serve their first round now."""
        if self._rounds > 1:
            self._used += [Serving(group, now) for group in groups]


class Unanswered:
    """Selected external groups whose prompts this node has not completed yet: it does so in its
    next round, together with prompts of its own.
    """

    def __init__(self) -> None:
        self._new: list[Group] = []
        # Bounded: a round that is lost brings no answers
        self._asked: Lru[Question, Group] = Lru(MAX_ASKED)

    def add(self, groups: Sequence[Group]) -> None:
        """Groups whose questions the next round asks."""
        self._new += groups

    def ask(self) -> list[Question]:
        """Questions to answer in the round that begins. Each is returned once."""
        new, self._new = {group.question: group for group in self._new}, []
        for question, group in new.items():
            self._asked[question] = group
        return list(new)

    def take(self, answers: Sequence[Group]) -> list[tuple[Group, Group]]:
        """Each local group that answers a question of another node, with that node's group."""
        return [
            (local, self._asked.pop(local.question))
            for local in answers
            if local.question in self._asked
        ]


class ExternalScoring(Protocol):
    """Scores the external groups of one node."""

    def ready(self, waiting: Sequence[Group], wanted: int, local: Sequence[Group]) -> Ready:
        """Called once a round, before it selects `wanted` of the waiting groups. `local`: the
        groups of this node.
        """
        ...

    def score(self, groups: Sequence[Group]) -> list[Group | Skipped]:
        """The scores of groups that are ready."""
        ...

    def close(self) -> None:
        """End scoring."""
        ...


class ScoringInStep(ExternalScoring):
    """Scores groups as they are selected: the same groups in the same rounds on every machine."""

    def __init__(self, score: ScoreGroups) -> None:
        self._score = score

    def ready(self, waiting: Sequence[Group], wanted: int, local: Sequence[Group]) -> Ready:
        return list(waiting), []

    def score(self, groups: Sequence[Group]) -> list[Group | Skipped]:
        return self._score(groups)

    def close(self) -> None:
        pass


class Budget:
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
        self._waiting: list[Group] = []  # in the order in which they will be scored
        self._results: dict[bytes, Group | Skipped] = {}  # by id, of groups that still wait
        # Whether an author's last group was scored quickly
        self._quick: Lru[PeerId, bool] = Lru(KEPT_AUTHORS)
        self._for_known, self._for_strangers = Budget(SHARE), Budget(STRANGERS)
        self._wanted, self._rounds, self._asked_at = 0, 0, clock()
        self._honest = 0.0  # seconds that scoring a local group takes here, once measured
        self._measured: Group | None = None  # a local group that is to be measured
        self._changed, self._closed = threading.Condition(), False
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="scoring", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def ready(self, waiting: Sequence[Group], wanted: int, local: Sequence[Group]) -> Ready:
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
        faults = [
            (external, result.reason) for external, result in found if isinstance(result, Skipped)
        ]
        return [external for external, result in found if isinstance(result, Group)], faults

    def score(self, groups: Sequence[Group]) -> list[Group | Skipped]:
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
        ready = sum(
            isinstance(result, Group) and result.informative for result in self._results.values()
        )
        missing = 0 if self._closed else AHEAD * self._wanted - ready
        first = next(
            (each for each in self._waiting if missing > 0 and self._budget_of(each.author)), None
        )
        if first is None or not self._known(first.author):
            return [first] if first else []
        known = {each.author: each for each in reversed(self._waiting) if self._known(each.author)}
        return [known.pop(first.author), *known.values()][: min(TOGETHER, missing)]

    def _known(self, author: PeerId) -> bool:
        return bool(self._quick.get(author))

    def _budget_of(self, author: PeerId) -> Budget | None:
        """The budget for a group of this author. Known authors may also use what strangers
        leave.
        """
        budgets = (
            [self._for_known, self._for_strangers] if self._known(author) else [self._for_strangers]
        )
        return next((budget for budget in budgets if budget.holds), None)

    def _done(self, external: Group, result: Group | Skipped, seconds: float) -> None:
        author = external.author
        self._results[external.id] = result
        self._quick[author] = seconds <= QUICK * self._honest and isinstance(result, Group)
        if isinstance(result, Skipped) and result.reason in HUNG:
            self._waiting = [waiting for waiting in self._waiting if waiting.author != author]

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
