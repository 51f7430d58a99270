"""How many held-out questions a node asks in training, too.

No peer has their addresses, but a task of few items has few texts: another address may well have the same one.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from statistics import fmean

from protocol.limits import MAX_QUESTIONS_PER_ROUND
from protocol.messages import PeerId, Question, Round
from swarm_node.environments.kinds import AskingEnvironment

ASKED = 1000  # training questions of each task
SECONDS = 10.0  # after which fewer have to do: some tasks take a tenth of a second for a question
NODE = PeerId("a node in training")  # no key makes this id

Task = tuple[str, str]  # dataset, config id


@dataclass(frozen=True, slots=True)
class Repeated:
    """Of the held-out questions of a task."""

    share: float  # whose text was asked in training, too
    asked: int  # training questions that were looked at


def repeated(
    environment: AskingEnvironment, held_out: Sequence[Question], clock: Callable[[], float] = time.monotonic
) -> Mapping[Task, Repeated]:
    """By task. Nothing of questions that the user brings: those are held out by their text."""
    if environment.count is not None:
        return {}
    trained = _trained_on(environment, clock)
    found: defaultdict[Task, list[bool]] = defaultdict(list)
    for question, prompt in zip(held_out, environment.prompts(held_out), strict=True):
        if isinstance(prompt, str):
            found[_task(question)].append(prompt in trained[_task(question)])
    return {task: Repeated(fmean(met), len(trained[task])) for task, met in found.items()}


def _trained_on(environment: AskingEnvironment, clock: Callable[[], float]) -> Mapping[Task, list[str]]:
    """The texts that a node asks in its first rounds: `ASKED` of each task, or as many as the time allows."""
    texts: dict[Task, list[str]] = {task: [] for task in environment.tasks}
    page = max(1, MAX_QUESTIONS_PER_ROUND // len(texts)) * len(texts)
    began = clock()
    for number in count():
        questions = environment.sample(NODE, Round(number), min(page, MAX_QUESTIONS_PER_ROUND))
        for question, prompt in zip(questions, environment.prompts(questions), strict=True):
            texts[_task(question)].append(prompt if isinstance(prompt, str) else "")
        if min(map(len, texts.values())) >= ASKED or clock() - began > SECONDS:
            break
    return texts


def _task(question: Question) -> Task:
    return question.dataset, question.config_id
