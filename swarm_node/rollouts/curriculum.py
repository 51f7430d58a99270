"""Which tasks a node practises: those that its model gets right sometimes, and not always.

A group whose completions are all right, or all wrong, has no advantage and trains nothing
(`Group.informative`). So the time of a node is worth most on tasks in a band between the two. Which
those are depends on the model and changes while it learns, so nobody can write them down before.

How it works. A node has a list of candidates. Each of them is in one stage:

    unasked -----> practised <-----> dropped
       |                                ^
       +--------------------------------+

- *The first rounds are the probe.* As long as fewer than `at_once` tasks are practised, unasked
  ones are asked `PROBE` questions each. Their groups are ordinary groups, and the informative ones
  are trained on: training begins with the first of them, not after the probe.
- *The verdict.* A task whose share of right answers lies between `LEAST` and `LEARNED`, and whose
  groups have a spread of rewards, is practised. One that is all right or all wrong is dropped.
- *What is practised is refined.* All its later groups go into the same estimate, and the verdict is
  given again after each round. So a task leaves the list when it is learned, or when the first two
  questions flattered it, and its place is free for the next candidate.
- *The questions of a round* that are no probes are dealt to the practised tasks in proportion to
  the mean variance of rewards within their groups. For right and wrong that is p(1-p), measured
  question by question: a task half of whose questions are always right, and half always wrong,
  has p = 0.5 and teaches nothing. A task that was asked little is assumed to have a large variance,
  so it is asked soon.
- *The estimate forgets.* A completion counts by a factor of e less for each `MEMORY` completions
  of that task that came later, since the weights that wrote it are gone.
- *Dropped tasks come back.* After `PAUSE` rounds, then twice as many each time, a dropped task is
  asked again as if it were new: the model may have become able to answer it, or may have forgotten
  it. While something is practised, one such task a round is asked at most.
- *Where nothing lies in the band* and nobody is unasked, the easiest of what is too hard is asked:
  see `easiest`, and `Practice`, which tells the user.

What others do. DAPO samples until a batch has only informative groups (*dynamic sampling*, arXiv
2503.14476, section 3.2); that throws finished completions away, which a CPU cannot afford. *Online
difficulty filtering* (arXiv 2504.03380) keeps prompts whose share of right answers lies between two
thresholds. *Sampling for learnability* (arXiv 2408.15099; for language models arXiv 2502.12272)
ranks levels of a game, or questions, by p(1-p), where p is the share of right answers. *Prioritised
level replay* (arXiv 2010.03934) chooses a level by how much it taught when it was last played, and
by how long ago that was; in this module the pauses do the latter. All these methods choose
questions out of a pool that is asked again and again. Here every question is new, so the estimate
belongs to a task.

Everything here is pure: no clock, no random state, no I/O. The round is the time, and the caller
passes a source of random numbers that is named by seed, peer and round. `state` is what a
checkpoint keeps; a checkpoint may be a stranger's, so its types bound each number.
"""

from collections.abc import Collection, Mapping, Sequence
from math import exp
from random import Random
from statistics import variance
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

AT_ONCE = 10  # tasks practised at the same time, where no option says how many
PROBE = 2  # questions that a task is asked before the first verdict
LEAST, LEARNED = 0.02, 0.9  # the band: shares of right answers
FLAT = 0.01  # a mean variance below which groups of a task teach next to nothing
MEMORY = 64  # completions after which one counts by a factor of e less
PAUSE = 20  # rounds for which a task is left alone after it was dropped for the first time
MOST_DOUBLINGS = 4  # of the pause
RETURNING = 1  # dropped tasks asked again in a round, while others are practised
EASIEST = 4  # tasks asked in turn where none lies in the band
SURPRISE = 0.25  # the variance that is assumed of a task in place of its first group
MOST_TASKS = 4096  # in a checkpoint

Weight = Annotated[float, Field(ge=0.0, le=1e6)]
Number = Annotated[int, Field(ge=0, le=2**31)]


class TaskState(BaseModel):
    """What is known of one task. Sums are over its groups, of which older ones count less."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    stage: Literal["unasked", "practised", "dropped"] = "unasked"
    right: Weight = 0.0  # sum of rewards: right answers, if there is no partial credit
    completions: Weight = 0.0
    spread: Weight = 0.0  # sum of the variance of rewards within a group
    groups: Weight = 0.0
    recent: Number = 0  # groups since it became unasked or dropped, for the next verdict
    drops: Number = 0  # how often it was dropped
    again: Number = 0  # the round from which it may be asked again, if it was dropped

    @model_validator(mode="after")
    def _check(self) -> Self:
        """ValueError where there are more right answers than answers."""
        if self.right > self.completions + 1e-6:
            raise ValueError("more right answers than answers")
        return self

    @property
    def share(self) -> float:
        """The share of right answers; 0 where nothing is known."""
        return self.right / self.completions if self.completions else 0.0

    @property
    def learnability(self) -> float:
        """The mean variance of rewards within a group, with one group of a large variance more, so
        that a task of which little is known counts as promising.
        """
        return (self.spread + SURPRISE) / (self.groups + 1)

    @property
    def in_band(self) -> bool:
        """Whether its groups teach something now and then."""
        spread = self.spread / self.groups if self.groups else 0.0
        return LEAST <= self.share < LEARNED and spread >= FLAT

    def with_group(self, rewards: Sequence[float]) -> "TaskState":
        """This state with another group, before which all earlier ones count less."""
        kept = exp(-len(rewards) / MEMORY)
        spread = variance(rewards) if len(rewards) > 1 else 0.0
        return self.model_copy(
            update={
                "right": self.right * kept + sum(rewards),
                "completions": self.completions * kept + len(rewards),
                "spread": self.spread * kept + spread,
                "groups": self.groups * kept + 1,
                "recent": self.recent + 1,
            }
        )

    def afresh(self) -> "TaskState":
        """This state without what was measured: the weights of that time are gone."""
        return TaskState(stage=self.stage, drops=self.drops, again=self.again)

    def dropped(self, now: int) -> "TaskState":
        """This state when the task is dropped in this round. One that was asked before its pause
        was over, since nothing else was left, does not wait longer for that.
        """
        update: dict[str, object] = {"stage": "dropped", "recent": 0}
        if now >= self.again:
            pause = PAUSE * 2 ** min(self.drops, MOST_DOUBLINGS)
            update |= {"drops": self.drops + 1, "again": now + pause}
        return self.model_copy(update=update)


class CurriculumState(BaseModel):
    """What a checkpoint keeps of a curriculum."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    version: Literal[1] = 1  # of this schema
    rounds: Number = 0  # that were learned from
    tasks: Annotated[dict[str, TaskState], Field(max_length=MOST_TASKS)] = {}


class Curriculum:
    """The state machine: `ask` says what a round asks, `learn` takes what came of it."""

    def __init__(
        self, candidates: Sequence[str], at_once: int, kept: CurriculumState | None = None
    ) -> None:
        """`candidates`: tasks, those to be asked first at the beginning. `at_once`: how many are
        practised at the same time, at most. `kept`: what an earlier run knew; of tasks that are no
        candidates any more nothing is taken.
        """
        if not candidates or at_once < 1:
            raise ValueError("a curriculum needs a candidate, and room for one task")
        kept = kept or CurriculumState()
        self._at_once, self._rounds = at_once, kept.rounds
        self._tasks = {task: kept.tasks.get(task, TaskState()) for task in candidates}

    @property
    def state(self) -> CurriculumState:
        """What a checkpoint keeps."""
        return CurriculumState(rounds=self._rounds, tasks=dict(self._tasks))

    @property
    def candidates(self) -> Collection[str]:
        """All its tasks."""
        return self._tasks.keys()

    @property
    def practised(self) -> dict[str, float]:
        """The tasks that are practised now, with their shares of right answers."""
        return self._shares("practised")

    @property
    def dropped(self) -> dict[str, float]:
        """The tasks that were dropped, with their last shares of right answers."""
        return self._shares("dropped")

    @property
    def unasked(self) -> list[str]:
        """The tasks that were not practised yet."""
        return [task for task, known in self._tasks.items() if known.stage == "unasked"]

    @property
    def is_stuck(self) -> bool:
        """Whether every candidate was asked, and none of them lies in the band."""
        return not self.practised and not self.unasked

    @property
    def easiest(self) -> list[str]:
        """What to ask where none lies in the band: the easiest of the tasks that are too hard, and
        if all are learned, those that are nearest to the band.
        """
        hard = [task for task, share in self.dropped.items() if share < LEARNED]
        ranked = sorted(hard, key=lambda task: -self._tasks[task].share)
        learned = sorted(self.dropped, key=lambda task: self._tasks[task].share)
        return (ranked or learned)[:EASIEST]

    def ask(self, now: int, count: int, rng: Random) -> list[str]:
        """The task of each of the `count` questions of a round. It changes nothing."""
        practised = list(self.practised)
        room = max(0, self._at_once - len(practised))
        probed = self._to_probe(now, bool(practised))[: min(room, max(1, count // PROBE))]
        asked = [task for task in probed for _ in range(PROBE)][:count]
        others = practised or (self.easiest if not self.unasked else []) or probed
        return asked + self._dealt(others, count - len(asked), rng)

    def learn(
        self, now: int, asked: Sequence[str], groups: Sequence[tuple[str, Sequence[float]]]
    ) -> None:
        """Takes what came of a round: the task and the rewards of each group. A task of `asked`
        that has no group at all could not be asked or scored, so it is dropped. A round without any
        group says nothing against the tasks that are practised: all of it was lost, perhaps since a
        scorer or memory failed. A round that comes again, after a start from an older checkpoint,
        is not counted twice.
        """
        if now < self._rounds:
            return
        self._rounds = now + 1
        met = set()
        for task, rewards in groups:
            if task in self._tasks and rewards:
                met.add(task)
                self._take(task, rewards)
        for task in met:
            self._judge(task, now)
        in_vain = set(asked) & self._tasks.keys() - met
        if not met:
            in_vain -= self.practised.keys()
        for task in in_vain:
            self._tasks[task] = self._tasks[task].dropped(now)

    def _take(self, task: str, rewards: Sequence[float]) -> None:
        known = self._tasks[task]
        begins = known.stage != "practised" and known.recent == 0
        self._tasks[task] = (known.afresh() if begins else known).with_group(rewards)

    def _judge(self, task: str, now: int) -> None:
        known = self._tasks[task]
        if known.stage != "practised" and known.recent < PROBE:
            return
        if known.in_band:
            self._tasks[task] = known.model_copy(update={"stage": "practised"})
        else:
            self._tasks[task] = known.dropped(now)

    def _to_probe(self, now: int, busy: bool) -> list[str]:
        """The tasks to probe, the first ones first. `busy`: whether something is practised."""
        due = [
            task
            for task, known in self._tasks.items()
            if known.stage == "dropped" and known.again <= now
        ]
        due.sort(key=lambda task: self._tasks[task].again)
        unasked = self.unasked
        return unasked + due[: RETURNING if busy or unasked else None]

    def _dealt(self, tasks: Sequence[str], count: int, rng: Random) -> list[str]:
        """A task for each of `count` questions, in proportion to what they teach. One random number
        places all of them (systematic sampling), so that in every round each task gets its share,
        or at most one question more or less.
        """
        if not tasks or count <= 0:
            return []
        weights = [self._tasks[task].learnability for task in tasks]
        step = sum(weights) / count
        place, passed, dealt = rng.random() * step, 0.0, list[str]()
        for task, weight in zip(tasks, weights, strict=True):
            passed += weight
            while place < passed and len(dealt) < count:
                dealt.append(task)
                place += step
        # Rounding may leave the last place beyond the sum
        return dealt + [tasks[-1]] * (count - len(dealt))

    def _shares(self, stage: str) -> dict[str, float]:
        return {task: known.share for task, known in self._tasks.items() if known.stage == stage}


def summary(practised: Mapping[str, float], dropped: Mapping[str, float], unasked: int) -> str:
    """What is practised, in a line for people, the counts first, as a narrow view cuts the end."""
    shown = ", ".join(f"{task} {share:.0%}" for task, share in practised.items())
    learned = sum(share >= LEARNED for share in dropped.values())
    hard = len(dropped) - learned
    parts = [
        f"{len(practised)} practised",
        f"{learned} learned" if learned else "",
        f"{hard} too hard" if hard else "",
        f"{unasked} not tried yet" if unasked else "",
    ]
    counts = ", ".join(filter(None, parts))
    return f"{counts}; recently right: {shown}" if shown else counts
