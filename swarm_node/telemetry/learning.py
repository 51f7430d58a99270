"""What a node has learned so far, task by task, from its events; also moving averages and
sparklines of numbers. Pure: views show the results.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import fmean

from swarm_node.rollouts.groups import Group
from swarm_node.telemetry.events import Corrected, Event, RoundDone, Trained, Validated

RECENT = 20  # rounds whose mean stands for the present, where no held-out question is asked
HISTORY = 2000  # rounds that are remembered
BLOCKS = "▁▂▃▄▅▆▇█"


@dataclass(slots=True)
class TaskLearning:
    """What is known of one task."""

    rewards: list[float] = field(default_factory=list)  # in training, by round
    before: float | None = None  # held out; None: not asked
    now: float = 0.0  # held out
    measured: int = 0  # how often held-out questions were asked since the start
    local: int = 0  # informative groups trained on
    # The same with completions of others, by author
    external: Counter[str] = field(default_factory=Counter)

    @property
    def span(self) -> tuple[float, float]:
        """The first and the present reward: of held-out questions if they are asked, else of
        rounds.
        """
        if self.before is not None:
            return self.before, self.now
        if not self.rewards:
            return 0.0, 0.0
        first, *later = self.rewards
        return first, fmean(later[-RECENT:] or [first])

    @property
    def once(self) -> bool:
        """Whether the first reward is also the present one: there is no second measurement yet."""
        if self.before is None:
            return len(self.rewards) < 2
        return self.measured < 2 and self.before == self.now

    @property
    def from_others(self) -> float | None:
        """The share of others' groups in all groups trained on; None if there were none."""
        total = self.local + self.external.total()
        return self.external.total() / total if total else None


class Learning:
    """Takes events, and keeps what they say of every task that rounds or validation ask."""

    def __init__(self) -> None:
        self._tasks: dict[str, TaskLearning] = {}
        self._corrected: dict[str, Corrected] = {}  # by task
        self.held_out = False  # whether held-out questions are asked
        self.questions = 0  # held-out ones that were asked last
        self.rounds = 0  # since the start

    def take(self, event: Event) -> None:
        match event:
            case RoundDone(report=report):
                self.rounds += 1
                for task, reward in report.reward_by_task.items():
                    known = self._of(task)
                    known.rewards = [*known.rewards[-HISTORY + 1 :], reward]
            case Trained(selection):
                for group in selection.local:
                    self._of(_task(group)).local += group.informative
                for group in selection.external:
                    if group.informative and group.from_others:
                        self._of(_task(group)).external[group.author] += 1
            case Validated(
                questions=questions, by_task=by_task, before=before, corrected=corrected
            ) if by_task:
                self.held_out, self.questions = True, questions
                for task, reward in by_task.items():
                    known = self._of(task)
                    known.before, known.now = before.get(task, reward), reward
                    known.measured += 1
                self._corrected = {each.task: each for each in corrected}

    @property
    def groups_of_its_own(self) -> int:
        """Informative groups of this node that it trained on since the start."""
        return sum(task.local for task in self._tasks.values())

    @property
    def groups_of_others(self) -> int:
        """Informative groups of others that it trained on since the start."""
        return sum(task.external.total() for task in self._tasks.values())

    @property
    def tasks(self) -> dict[str, TaskLearning]:
        """The tasks of held-out questions; if none are asked, all tasks that rounds asked."""
        shown: dict[str, TaskLearning] = {}
        for task, learning in self._tasks.items():
            of_rounds = bool(learning.rewards) and not self.held_out
            if learning.before is not None or of_rounds:
                shown[task] = learning
        return shown

    @property
    def example(self) -> tuple[Corrected, str] | None:
        """A corrected question, and the author who taught it if only others had groups of its task,
        else "". Tasks that others taught come first, then those that gained most.
        """
        if not self._corrected:
            return None
        task = max(self._corrected, key=self._worth_showing)
        return self._corrected[task], self._teacher(task)

    def _worth_showing(self, task: str) -> tuple[bool, float, str]:
        """By what the corrected questions of tasks are ordered."""
        return self._teacher(task) != "", self._gain(task), task

    def _of(self, task: str) -> TaskLearning:
        return self._tasks.setdefault(task, TaskLearning())

    def _gain(self, task: str) -> float:
        before, now = self._of(task).span
        return now - before

    def _teacher(self, task: str) -> str:
        learning = self._of(task)
        if learning.local or not learning.external:
            return ""
        [(author, _)] = learning.external.most_common(1)
        return author


def _task(group: Group) -> str:
    return f"{group.question.dataset}/{group.question.config_id}"


def moving_average(values: Sequence[float], window: int) -> list[float]:
    """Mean of the last `window` values at every point, of fewer at the start. The length stays the
    same.
    """
    averages, total = [], 0.0
    for index, value in enumerate(values):
        total += value - (values[index - window] if index >= window else 0.0)
        averages.append(total / min(index + 1, window))
    return averages


def sparkline(values: Sequence[float], width: int, ceiling: float = 0.0) -> str:
    """`values` from 0 to `ceiling`, or to their largest, as at most `width` characters, each a mean
    of its share.
    """
    if not values:
        return ""
    width = min(width, len(values))
    edges = [index * len(values) // width for index in range(width + 1)]
    means = [sum(values[a:b]) / (b - a) for a, b in pairwise(edges)]
    ceiling = ceiling or max(means)
    if ceiling <= 0:
        return BLOCKS[0] * width
    return "".join(_block(mean / ceiling) for mean in means)


def _block(share: float) -> str:
    """The block whose height is this share of a line."""
    index = int(share * len(BLOCKS))
    return BLOCKS[min(len(BLOCKS) - 1, max(0, index))]
