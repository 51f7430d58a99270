"""What a node says of its learning: what to try where no answer is right, and at its end what it
learned.
"""

from pathlib import Path

from protocol.messages import Question
from swarm_node.common.errors import UserError, printable
from swarm_node.environments.registry import right_answer
from swarm_node.rollouts.groups import ScoredGroup, Selection
from swarm_node.settings import LearningConfig, NodeConfig, Section
from swarm_node.telemetry.events import Event, Notice, Telemetry, Trained
from swarm_node.telemetry.learning import Learning

ROUNDS = 10  # without a right answer, before advice is given
SHOWN = 100  # characters of a completion
NAMED = 2  # tasks that are named


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
        spans = {task: known.span for task, known in self._learning.tasks.items()}
        if not spans:
            return []
        gained = sorted(spans, key=lambda task: spans[task][0] - spans[task][1])
        shown = ", ".join(
            f"{task} {spans[task][0]:.2f} -> {spans[task][1]:.2f}" for task in gained[:NAMED]
        )
        more = f", {len(gained) - NAMED} more" if len(gained) > NAMED else ""
        where = "held out" if self._learning.held_out else "in training"
        home = "" if self._home == NodeConfig().home.expanduser() else f" --home {self._home}"
        return [
            f"right, {where}: {shown}{more}",
            f"see both answers: swarm-node ask{home}",
            f"go on, with others: swarm-node run{home} --peers ADDRESS",
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


def told(group: ScoredGroup, config: LearningConfig) -> str:
    """One completion beside what was wanted, and what to try."""
    completion, answer = group.group.episodes[0], wanted(group.question, config)
    said = (
        f"To {printable(group.prompt.strip()[-SHOWN:], SHOWN)!r} it says "
        f"{printable(completion.text, SHOWN)!r}"
    )
    cut = (
        ""
        if completion.ended
        else f", cut off after {config.generation.max_completion_length} tokens"
    )
    return (
        f"{said}{cut}{answer and f', and {printable(answer, SHOWN)!r} is wanted'}. "
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
