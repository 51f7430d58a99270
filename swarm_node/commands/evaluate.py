"""`swarm-node model eval`: accuracy per task on held-out questions, with Wilson intervals."""

import json
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from math import sqrt
from pathlib import Path

from rich.console import Console
from rich.table import Table

from protocol.messages import Question
from swarm_node.common.batched import paired
from swarm_node.common.command import Command
from swarm_node.common.console import Terminal
from swarm_node.common.errors import UserError, printable
from swarm_node.common.loading import quickly
from swarm_node.environments.kinds import held_out
from swarm_node.environments.registry import by_kind, right_answer, with_environment
from swarm_node.environments.scored import ScoredEnvironment
from swarm_node.home.asks import going_on
from swarm_node.node.defaults import model_of, newest, suited
from swarm_node.policy.by_card import choice_of, is_pinned
from swarm_node.policy.named import check_model, say
from swarm_node.settings import (
    EnvironmentConfig,
    EvaluationConfig,
    LearningConfig,
    part_of,
)
from swarm_node.settings.command_line import from_command_line

BATCH = 64  # prompts decoded together
CHECKPOINTS = "checkpoints"  # of a home
Z95 = 1.959964  # standard normal quantile of a two-sided 95 % interval

PAGE = """\
usage: swarm-node model eval [NAME|FOLDER|HOME] [--flags]

Measures the accuracy on held-out questions, with 95 % intervals: of a model, by
its name or folder, or of the newest checkpoint of a node (by default the node
in ~/.swarm-node).

  --tasks TASK ...            tasks, such as gcd/easy,lcm/easy
  --questions N               number of questions per task (100)
  --temporal-clue.puzzles FILE
                              puzzles for temporal_clue/published
  --dataset.file FILE         your own questions, of which the held-out ones
  --taskset.name NAME|FILE    a task set of `verifiers`, its held-out questions
  --model.device NAME         cpu, cuda, cuda:1, mps (default: CUDA, if any)
  --generation.temperature X  sampling temperature (1.0)
  --generation.max-completion-length N
                              tokens after which a completion is cut off (16)
  --json                      print one JSON object, for scripts"""


@dataclass(frozen=True, slots=True)
class TaskAccuracy:
    """How a model did on a task. Accuracy and its interval are shares, in [0, 1]."""

    task: str
    questions: int  # answered and scored
    skipped: int  # could not be asked, answered or scored
    accuracy: float
    low: float  # 95 % interval
    high: float


def evaluate(config: EvaluationConfig, console: Console) -> list[TaskAccuracy]:
    """Accuracy by one sampled completion per question. The last row is over all tasks. Progress
    goes to `console`.

    A puzzle's score is the share of its questions answered correctly; taken as a proportion, its
    interval is too wide rather than too narrow.
    """
    scores: dict[str, list[float | None]] = {}  # by task
    example: tuple[Question, str] | None = None  # and its completion
    with ExitStack() as stack, console.status(f"loading {config.model.name}") as status:
        with quickly():
            from swarm_node.generation.generator import BatchGenerator
            from swarm_node.node.evaluation import answer

            # Now, not above: they load torch
            from swarm_node.policy.loading import configured_policy
        asking = _suited(config)
        config = config.model_copy(update={"model": asking.model, "generation": asking.generation})
        asked = _environments(asking, stack)  # before the model: a wrong task is told at once
        generator = BatchGenerator(configured_policy(config), config.generation)
        for environment in asked:
            questions = held_out(
                environment, environment.count or config.questions * len(environment.tasks)
            )
            for number, start in enumerate(range(0, len(questions), BATCH)):
                batch = questions[start : start + BATCH]
                status.update(f"asked {start + len(batch)} of {len(questions)} questions")
                answers = answer(generator, environment, batch, f"evaluation/{number}")
                for question, answered in paired(batch, answers):
                    if answered.text and not example:
                        example = question, answered.text
                    task = f"{question.dataset}/{question.config_id}"
                    scores.setdefault(task, []).append(answered.score)
    rows = [_row(task, found) for task, found in scores.items()]
    every = [score for found in scores.values() for score in found]
    if example and not any(every):
        console.print(nothing_right(*example, asking), markup=False)
    return [*rows, _row("all", every)]


def nothing_right(question: Question, said: str, config: LearningConfig) -> str:
    """One completion beside what was wanted, and what to try."""
    try:
        wanted = f", but {printable(right_answer(config, question))!r} is expected"
    except UserError:
        wanted = ""  # the environment keeps it to itself
    told = (
        f"No answer was correct. To a question of {question.dataset}/{question.config_id} the "
        "model answers "
        f"{printable(said)!r}"
    )
    return f"{told}{wanted}. Try --shots 4, --answer, more tokens or easier tasks."


def _suited(config: EvaluationConfig) -> LearningConfig:
    """The options that suit this model, or the one that a checkpoint began from, as for a node with
    that model.
    """
    settings = EnvironmentConfig(use=config.use, tasks=config.tasks, shots=config.shots)
    if "answer" in config.model_fields_set:
        settings = settings.model_copy(update={"answer": config.answer})
    model = config.model
    if not model.lora_rank:
        model = model.model_copy(update={"lora_rank": 0})
    parts = {
        **part_of(config, LearningConfig),
        "model": model,
        "environment": settings,
    }
    kept = model_of(Path(config.model.name).expanduser())
    base = kept.get("name", config.model.name)
    is_of_card = is_pinned(base, kept.get("revision"))
    choice = choice_of(base) if is_of_card else None
    return suited(LearningConfig.model_validate(parts), base, choice)


def _environments(asking: LearningConfig, stack: ExitStack) -> list[ScoredEnvironment]:
    """The environments of the tasks, each with the scoring that suits evaluation."""
    found: list[ScoredEnvironment] = []
    for kind, tasks in by_kind(asking):
        found.append(kind.start(tasks, with_environment(asking, scoring=kind.evaluated)))
        stack.callback(found[-1].close)
    return found


def table(rows: Sequence[TaskAccuracy]) -> Table:
    """The rows as a table for a person; the last row, over all tasks, stands apart."""
    shown = Table("task", "questions", "accuracy", "95 % interval")
    for row in rows:
        note = f" ({row.skipped} skipped)" if row.skipped else ""
        interval = f"{row.low:.3f} - {row.high:.3f}"
        figures = (f"{row.questions}{note}", f"{row.accuracy:.3f}", interval)
        shown.add_row(row.task, *figures, end_section=row is rows[-2])
    return shown


def wilson(right: float, total: int) -> tuple[float, float]:
    """95 % interval of a proportion (Wilson 1927): sensible at 0, at 1 and for few questions."""
    if total == 0:
        return 0.0, 1.0
    share, z2 = right / total, Z95 * Z95 / total
    centre = (share + z2 / 2) / (1 + z2)
    spread = sqrt(share * (1 - share) / total + z2 / (4 * total))
    half = Z95 * spread / (1 + z2)
    return max(0.0, centre - half), min(1.0, centre + half)


def _row(task: str, scores: Sequence[float | None]) -> TaskAccuracy:
    scored = [score for score in scores if score is not None]
    skipped = len(scores) - len(scored)
    low, high = wilson(sum(scored), len(scored))
    accuracy = sum(scored) / max(1, len(scored))
    return TaskAccuracy(task, len(scored), skipped, accuracy, low, high)


def command(argv: list[str]) -> None:
    """Prints a table, or one JSON object. A first argument without dashes is the model, or the home
    of a node.
    """
    config = from_command_line(EvaluationConfig, argv, "swarm-node model eval", True, "model.name")
    named = "name" in config.model.model_fields_set
    name, home = _named(config.model.name if named else "", config.home.expanduser())
    if home is not None:
        config = going_on(config, home, say)
    model = config.model.model_copy(update={"name": name})
    config = config.model_copy(update={"model": model})
    check_model(config.model)  # before the live view, which captures printed lines
    rows = evaluate(config, Terminal(stderr=True))
    if config.json_output:
        *tasks, whole = map(asdict, rows)
        print(json.dumps({"tasks": tasks, "all": whole}))
    else:
        Terminal().print(table(rows))


def _named(name: str, home: Path) -> tuple[str, Path | None]:
    """The model to ask: the one of this name, or the newest checkpoint of a home, if `name` is a
    home or empty; and that home.
    """
    folder = Path(name).expanduser() if name else home
    if name and not (folder / CHECKPOINTS).is_dir():
        return name, None
    found = newest(folder / CHECKPOINTS, "name a model, swarm-node model eval NAME|FOLDER")
    print(f"the newest checkpoint of {folder}: {found.name}", file=sys.stderr)
    return str(found), folder


EVAL = Command(EvaluationConfig, PAGE, command)
