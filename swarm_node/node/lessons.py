"""What a node says of its learning: what to try where no answer is right, and at its end what it
learned.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from protocol.messages import Question
from swarm_node.common.errors import UserError, printable
from swarm_node.common.shell import at_home
from swarm_node.environments.registry import right_answer
from swarm_node.rollouts.groups import Group, Selection
from swarm_node.settings import LearningConfig, NodeConfig, Section
from swarm_node.telemetry.events import Event, Notice, Telemetry, Trained
from swarm_node.telemetry.learning import Learning

ROUNDS = 10  # without a right answer, before advice is given
SHOWN = 100  # characters of a completion
NAMED = 3  # tasks that are named: of those that rose, and likewise of others


def lessons(home: Path, config: Section, telemetry: Telemetry) -> "Lessons | None":
    """The observer of a node; None for commands that train nothing."""
    return Lessons(home, config, telemetry) if isinstance(config, NodeConfig) else None


class Lessons:
    """An observer that tells the user what a node learns."""

    def __init__(self, home: Path, config: NodeConfig, telemetry: Telemetry) -> None:
        self._home, self._config, self._telemetry = home, config, telemetry
        self._learning = Learning()
        self._wrong = 0  # rounds since something was right

    def take(self, event: Event) -> None:
        self._learning.take(event)
        if isinstance(event, Trained):
            self._look(event.selection)

    def close(self) -> None:
        for line in self.lines():
            self._telemetry.show(line)

    def lines(self) -> list[str]:
        """What was learned, and what to do next; nothing where nothing was trained."""
        if not self._learning.tasks:
            return []
        usual = NodeConfig().home
        return [
            summary(self._learning),
            *corrected(self._learning),
            f"see both answers: {at_home('swarm-node ask', self._home, usual)}",
            f"continue, with others: {at_home('swarm-node run', self._home, usual)} --peers "
            "ADDRESS",
        ]

    def _look(self, selection: Selection) -> None:
        groups = selection.generated.groups
        if not groups or any(reward > 0 for group in groups for reward in group.rewards):
            self._wrong = 0
            return
        self._wrong += 1
        if self._wrong == ROUNDS:
            self._telemetry.emit(
                Notice(f"no answer was right for {ROUNDS} rounds. {told(groups[0], self._config)}")
            )


def summary(learning: Learning) -> str:
    """What rose and what fell, over how many questions; what was measured once has no change."""
    rose, fell, same, once = list[Trend](), list[Trend](), list[Trend](), list[Trend]()
    for task, known in learning.tasks.items():
        before, now = (round(reward, 2) for reward in known.span)
        trend = Trend(task, before, now)
        if known.once:
            once.append(trend)
        else:
            (same if before == now else rose if now > before else fell).append(trend)
    rose.sort(key=lambda trend: trend.before - trend.now)
    fell.sort(key=lambda trend: trend.now - trend.before)
    if learning.held_out:
        count, where, what = learning.questions, "held out", "question"
    else:
        count, where, what = learning.rounds, "in training", "round"
    kinds = (("rose", rose), ("fell", fell), ("as before", same), ("measured once", once))
    said = [f"{kind} {named(trends)}" for kind, trends in kinds if trends]
    return f"right ({where}, {count} {what}{'s' * (count != 1)}): {'; '.join(said)}"


class Trend(NamedTuple):
    """The first and the present reward of a task, of which people see two digits."""

    task: str
    before: float
    now: float

    def __str__(self) -> str:
        if self.before == self.now:
            return f"{self.task} {self.now:.2f}"
        return f"{self.task} {self.before:.2f} -> {self.now:.2f}"


def named(trends: Sequence[Trend]) -> str:
    """The first of these tasks by name, and how many more there are."""
    more = f", {len(trends) - NAMED} more" if len(trends) > NAMED else ""
    return ", ".join(map(str, trends[:NAMED])) + more


def corrected(learning: Learning) -> list[str]:
    """A line with a held-out question that was wrong at first and is right now, if there is one."""
    if learning.example is None:
        return []
    example, _ = learning.example
    question, before, now = (
        repr(printable(text.strip(), SHOWN))
        for text in (example.question, example.before, example.now)
    )
    return [f"was wrong, is right now: asked {question}, it answered {before}, now {now}"]


def told(group: Group, config: LearningConfig) -> str:
    """One completion beside what was wanted, and what to try."""
    completion, answer = group.episodes[0], wanted(group.question, config)
    said = (
        f"Asked {printable(group.prompt.strip()[-SHOWN:], SHOWN)!r}, the model answers "
        f"{printable(completion.text, SHOWN)!r}"
    )
    cut = (
        ""
        if completion.ended
        else f", cut off after {config.generation.max_completion_length} tokens"
    )
    return (
        f"{said}{cut}{answer and f', but {printable(answer, SHOWN)!r} is expected'}. "
        f"{advice(completion.ended)}"
    )


def wanted(question: Question, config: LearningConfig) -> str:
    """The reference answer; empty where the environment does not give it."""
    try:
        return right_answer(config, question)
    except UserError:
        return ""


def advice(ended: bool) -> str:
    """What the user may try. `ended`: whether the completion ended by itself."""
    if not ended:
        return "Try --generation.max-completion-length, --generation.stop, or easier tasks"
    return (
        "Try easier tasks, --environment.scoring graded, or say in the questions how an answer "
        "looks"
    )
