"""`swarm-node eval`: accuracy per task on held-out questions, with Wilson intervals."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from math import sqrt

from rich.console import Console
from rich.table import Table

from protocol.messages import Question
from swarm_node.build import build_policy
from swarm_node.compute.generator import BatchGenerator
from swarm_node.config import EvaluationConfig
from swarm_node.environment.catalogue import STARTER_TASKS
from swarm_node.environment.reasoning_gym import ReasoningGym, held_out
from swarm_node.rollouts.groups import Skipped

BATCH = 64  # prompts decoded together
Z95 = 1.959964  # standard normal quantile of a two-sided 95 % interval


@dataclass(frozen=True, slots=True)
class TaskAccuracy:
    task: str
    questions: int  # answered and judged
    skipped: int  # could not be asked, answered or judged
    accuracy: float
    low: float  # 95 % interval
    high: float


def evaluate(config: EvaluationConfig, console: Console) -> list[TaskAccuracy]:
    """One sampled answer per question; the last row is over all tasks. Progress goes to `console`."""
    tasks = config.tasks or STARTER_TASKS
    policy = build_policy(config.model)
    generator = BatchGenerator(policy, config.generation)
    environment = ReasoningGym(tasks, "exact")
    right: dict[str, list[float]] = {task: [] for task in tasks}
    skipped = dict.fromkeys(tasks, 0)
    questions = held_out(environment, config.questions * len(tasks))
    try:
        with console.status("asking") as status:
            for number, batch in enumerate(_batches(questions)):
                status.update(f"asked {min((number + 1) * BATCH, len(questions))} of {len(questions)} questions")
                for question, score in zip(batch, _answer(generator, environment, batch, number), strict=True):
                    task = f"{question.dataset}/{question.config_id}"
                    if score is None:
                        skipped[task] += 1
                    else:
                        right[task].append(score)
    finally:
        environment.close()
    rows = [_row(task, right[task], skipped[task]) for task in tasks]
    return [*rows, _row("all", [score for scores in right.values() for score in scores], sum(skipped.values()))]


def table(rows: Sequence[TaskAccuracy]) -> Table:
    shown = Table("task", "questions", "accuracy", "95 % interval")
    for row in rows:
        note = f" ({row.skipped} skipped)" if row.skipped else ""
        interval = f"{row.low:.3f} - {row.high:.3f}"
        shown.add_row(row.task, f"{row.questions}{note}", f"{row.accuracy:.3f}", interval, end_section=row is rows[-2])
    return shown


def as_json(rows: Sequence[TaskAccuracy]) -> dict[str, object]:
    return {"tasks": [asdict(row) for row in rows[:-1]], "all": asdict(rows[-1])}


def wilson(right: float, total: int) -> tuple[float, float]:
    """95 % interval of a proportion (Wilson 1927): sensible at 0, at 1 and for few questions."""
    if total == 0:
        return 0.0, 1.0
    share, z2 = right / total, Z95 * Z95 / total
    centre = (share + z2 / 2) / (1 + z2)
    half = Z95 * sqrt(share * (1 - share) / total + z2 / (4 * total)) / (1 + z2)
    return max(0.0, centre - half), min(1.0, centre + half)


def _row(task: str, scores: Sequence[float], skipped: int) -> TaskAccuracy:
    low, high = wilson(sum(scores), len(scores))
    return TaskAccuracy(task, len(scores), skipped, sum(scores) / max(1, len(scores)), low, high)


def _batches(questions: Sequence[Question]) -> Iterator[Sequence[Question]]:
    for start in range(0, len(questions), BATCH):
        yield questions[start : start + BATCH]


def _answer(
    generator: BatchGenerator, environment: ReasoningGym, batch: Sequence[Question], number: int
) -> list[float | None]:
    """1.0 or 0.0 for each question; None where it could not be asked, answered or judged."""
    scores: list[float | None] = [None] * len(batch)
    asked = [(i, prompt) for i, prompt in enumerate(environment.prompts(batch)) if isinstance(prompt, str)]
    written = generator.generate([prompt for _, prompt in asked], 1, f"evaluation/{number}")
    answered = [
        (i, answer.completions[0].text)
        for (i, _), answer in zip(asked, written, strict=True)
        if not isinstance(answer, Skipped)
    ]
    rewards = environment.score([(batch[i], [text]) for i, text in answered])
    for (i, _), reward in zip(answered, rewards, strict=True):
        if not isinstance(reward, Skipped):
            scores[i] = reward[0]
    return scores
