"""`swarm-node ask`: what the node's model says to a question, before its training and now, side by
side.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rich.table import Table
from rich.text import Text

from protocol.limits import MAX_QUESTIONS_PER_ROUND
from protocol.messages import Question, Round
from swarm_node.common.batched import paired
from swarm_node.common.command import Command
from swarm_node.common.console import Terminal
from swarm_node.common.errors import UserError, printable
from swarm_node.common.loading import quickly
from swarm_node.common.parsing import read_json
from swarm_node.environments.kinds import EVALUATION
from swarm_node.environments.registry import build_environment, tasks_of
from swarm_node.environments.scored import rewards_of_texts
from swarm_node.home.asks import going_on
from swarm_node.node.defaults import STATE_BYTES, newest, resolved
from swarm_node.policy.named import say
from swarm_node.rollouts.groups import Skipped
from swarm_node.rollouts.interfaces import Environment
from swarm_node.settings import NodeConfig
from swarm_node.settings.command_line import from_command_line

if TYPE_CHECKING:
    from swarm_node.policy.policy import Policy

LOOKED_AT = 4  # questions of each task, compared to find what all its prompts share
ALIKE = 4  # characters that the text and a question must share at their beginning
SHOWN = 200  # characters of a question or an answer
LOOKED_THROUGH = 64  # held-out questions of each task, among which are those wrong at first
CANDIDATES = 24  # questions that are put to the model, until some are right
RIGHT = 3  # questions of each task that are right now, and are asked before
NONE_LEARNED = "none of {} held-out questions was wrong before and is right now"
DRAWN = "its most likely answer has not changed; these were sampled at random, as in training"

PAGE = """\
usage: swarm-node ask [TEXT] [--flags]

Compares the answers of a model before its training and with its newest
checkpoint, side by side. TEXT becomes a question of one of the node's tasks,
with the same few-shot examples. Without TEXT you see one held-out question of
each task, if possible one that was answered wrong before and is answered right
now. The home folder knows the tasks; the flags of run choose others. A word
after -- is TEXT, even if it looks like a flag.

  --home FOLDER                  home folder of the node (~/.swarm-node)
  --environment.tasks TASK ...   other tasks than those of the node
  --dataset.file FILE            other questions of your own
  --generation.max-completion-length N
                                 tokens after which an answer is cut off"""


class QuestionConfig(NodeConfig):
    """What the node's model says, before its training and now."""

    text: str = ""
    """The question. Empty: a held-out question of each task."""


def command(argv: list[str]) -> None:
    """Prints a table. A first argument without dashes is the text."""
    config = from_command_line(QuestionConfig, argv, "swarm-node ask", first="text")
    checkpoint = newest(config.home / "checkpoints", "train first, with swarm-node run")
    config = resolved(going_on(config, config.home.expanduser(), say), say)
    with closing(build_environment(config)) as environment:
        count = len(tasks_of(config))
        tasks = held_out(environment, count)
        if config.text:
            question, prompt = framed(config.text, tasks)
            _, (before,), (now,) = answers(config, checkpoint, [prompt], lambda now: [0])
            rows, note = [BeforeAndNow(question, before, now)], ""
        else:
            known = validated(checkpoint)
            candidates = asked_of_each(environment, count, known)
            prompts = [prompt for _, prompt in candidates]
            asked = [question for question, _ in candidates]
            search = Search(environment, asked)
            places, *both = answers(config, checkpoint, prompts, search.chosen)
            told = telling(environment, [asked[k] for k in places], *both)
            shown = {prompt: question for question, prompt in each_shown(tasks, prompts)}
            rows, drawn, note = list[BeforeAndNow](), 0, ""
            for k, learned in told:
                before, now = both[0][k], both[1][k]
                row = BeforeAndNow(shown[prompts[places[k]]], before, now)
                other = None if learned else drawn_of(task_of(asked[places[k]]), asked, known)
                if other is not None:
                    row = BeforeAndNow(shown[prompts[other.place]], other.before, other.now)
                    drawn += 1
                rows.append(row)
            if drawn:
                note = DRAWN
            elif not any(learned for _, learned in told):
                note = NONE_LEARNED.format(search.looked_at)
    table = Table("question", "before", f"after {int(checkpoint.name)} rounds")
    for row in rows:
        table.add_row(*(Text(printable(text.strip(), SHOWN)) for text in row))
    Terminal().print(table)
    if note:
        print(note)


def held_out(environment: Environment, tasks: int) -> dict[str, list[str]]:
    """Some held-out prompts of each task. `tasks`: how many tasks there are."""
    questions = environment.sample(
        EVALUATION, Round(0), min(LOOKED_AT * tasks, MAX_QUESTIONS_PER_ROUND)
    )
    found: dict[str, list[str]] = {}
    for question, prompt in paired(questions, environment.prompts(questions)):
        if isinstance(prompt, str):
            found.setdefault(f"{question.dataset}/{question.config_id}", []).append(prompt)
    return found


class BeforeAndNow(NamedTuple):
    """A question, and what the model says to it before its training and now."""

    question: str
    before: str
    now: str


class Correction(NamedTuple):
    """Answers that validation drew to the question at this place: wrong at first, right later."""

    place: int
    before: str
    now: str


@dataclass(frozen=True)
class ValidationAnswers:
    """What validation found, by DATASET/CONFIG/INDEX of a question: its first answer, where that
    was wrong, and its newest one, where that is right. A home of somebody else may say anything
    there, so these texts are printed, and nothing else.
    """

    wrong: Mapping[str, str] = field(default_factory=dict)
    right: Mapping[str, str] = field(default_factory=dict)

    def rank(self, question: Question) -> int:
        """0 for a question that was wrong and is right, 1 for one that was wrong, else 2."""
        name = f"{task_of(question)}/{question.index}"
        if name not in self.wrong:
            return 2
        return 0 if name in self.right else 1


def validated(checkpoint: Path) -> ValidationAnswers:
    """What validation found, as this checkpoint says; nothing where it asked nothing."""
    with quickly():
        from swarm_node.node.evaluation import MEASURED, Measured  # now: it loads torch
    try:
        state = read_json(checkpoint / "state.json", STATE_BYTES)
        found = Measured.model_validate(state["extra"][MEASURED])
    except (OSError, ValueError, LookupError, TypeError):
        return ValidationAnswers()
    return ValidationAnswers(found.wrong, found.right)


def drawn_of(task: str, asked: Sequence[Question], known: ValidationAnswers) -> Correction | None:
    """The first question of this task to which validation drew a wrong answer at first and a right
    one when it asked last; None if there is none.
    """
    for place, question in enumerate(asked):
        if task_of(question) == task and known.rank(question) == 0:
            name = f"{task}/{question.index}"
            return Correction(place, known.wrong[name], known.right[name])
    return None


def asked_of_each(
    environment: Environment, tasks: int, known: ValidationAnswers
) -> list[tuple[Question, str]]:
    """Held-out questions and their prompts, some of each task: those that validation found wrong
    at first and right later come first, then those that were wrong.
    """
    questions = environment.sample(
        EVALUATION, Round(0), min(LOOKED_THROUGH * tasks, MAX_QUESTIONS_PER_ROUND)
    )
    prompts = environment.prompts(questions)
    texts = list[tuple[Question, str]]()
    for question, prompt in paired(questions, prompts):
        if isinstance(prompt, str):
            texts.append((question, prompt))
    texts.sort(key=lambda asked: known.rank(asked[0]))
    most, kept = max(1, CANDIDATES // tasks), Counter[str]()
    found = []
    for question, prompt in texts:
        kept[task_of(question)] += 1
        if kept[task_of(question)] <= most:
            found.append((question, prompt))
    return found


def task_of(question: Question) -> str:
    """The task of a question, as options name it."""
    return f"{question.dataset}/{question.config_id}"


class Search:
    """Looks for questions that are right now, until each task has some; the model before its
    training is asked these alone.
    """

    def __init__(self, environment: Environment, asked: Sequence[Question]) -> None:
        self._environment, self._asked = environment, asked
        self._right: dict[str, list[int]] = {task_of(question): [] for question in asked}
        self.looked_at = 0

    def chosen(self, now: Sequence[str]) -> list[int] | None:
        """The places of the questions to ask before, by the answers now; None while more answers
        are wanted. It is called after each answer.
        """
        self.looked_at = len(now)
        last = len(now) - 1
        question, answer = self._asked[last], now[last]
        (rewards,) = rewards_of_texts(self._environment, [(question, (answer,))])
        if not isinstance(rewards, Skipped) and rewards[0] >= 1.0:
            self._right[task_of(question)].append(last)
        is_searching = any(len(right) < RIGHT for right in self._right.values())
        if is_searching and len(now) < len(self._asked):
            return None
        first: dict[str, int] = {}
        for index, answered in enumerate(self._asked[: len(now)]):
            first.setdefault(task_of(answered), index)
        chosen: list[int] = []
        for task, first_index in first.items():
            chosen += self._right[task] or [first_index]
        return sorted(chosen)


def telling(
    environment: Environment,
    asked: Sequence[Question],
    before: Sequence[str],
    now: Sequence[str],
) -> list[tuple[int, bool]]:
    """The place of one question of each task: the first that was wrong before and is right now,
    else the first of the task. And whether it was so.
    """
    said = zip(asked, before, now, strict=True)
    scores = rewards_of_texts(environment, [(question, texts) for question, *texts in said])
    chosen: dict[str, tuple[int, bool]] = {}
    for k, (question, rewards) in enumerate(zip(asked, scores, strict=True)):
        learned = not isinstance(rewards, Skipped) and rewards[0] < 1.0 <= rewards[1]
        task = task_of(question)
        if task not in chosen or (learned and not chosen[task][1]):
            chosen[task] = k, learned
    return list(chosen.values())


def each_shown(
    tasks: Mapping[str, Sequence[str]], prompts: Sequence[str]
) -> Iterator[tuple[str, str]]:
    """Each prompt without what all prompts of its task share, and as it is asked."""
    frames = [around(prompts_of_task) for prompts_of_task in tasks.values()]
    longest_head_first = sorted(frames, key=lambda frame: len(frame[0]), reverse=True)
    for prompt in prompts:
        fitting = [(head, tail) for head, tail in longest_head_first if prompt.startswith(head)]
        head, tail = fitting[0] if fitting else ("", "")
        yield prompt.removeprefix(head).removesuffix(tail), prompt


def framed(text: str, tasks: Mapping[str, Sequence[str]]) -> tuple[str, str]:
    """The text, and the text framed as in the task that it resembles most, if any, or as in the
    only task.
    """
    best, most = ("", ""), ALIKE - 1 if len(tasks) > 1 else -1
    for prompts in tasks.values():
        head, tail = around(prompts)
        alike = max(len(_beginning([text, prompt.removeprefix(head)])) for prompt in prompts)
        if alike > most:
            best, most = (head, tail), alike
    return text, best[0] + text + best[1]


def around(prompts: Sequence[str]) -> tuple[str, str]:
    """The whole lines that stand before and after the question in all of these prompts."""
    head = _beginning(prompts)
    head = head[: head.rfind("\n") + 1]
    # The end that the rest of all has in common: their beginning, read backwards
    backwards = [prompt[len(head) :][::-1] for prompt in prompts]
    tail = _beginning(backwards)[::-1]
    return head, tail[tail.find("\n") :] if "\n" in tail else ""


def _beginning(texts: Sequence[str]) -> str:
    # In the order of the alphabet, all others begin as these two do
    first, last = min(texts), max(texts)
    for index, (one, other) in enumerate(zip(first, last, strict=False)):
        if one != other:
            return first[:index]
    return first


def answers(
    config: NodeConfig,
    checkpoint: Path,
    prompts: Sequence[str],
    choose: Callable[[Sequence[str]], list[int] | None],
) -> tuple[list[int], list[str], list[str]]:
    """The places of some prompts, and the likeliest answers to these: by the model before its
    training, and by this checkpoint. `choose` gives the places, by the answers of the checkpoint so
    far; None while more are wanted. Raises UserError.
    """
    with quickly():
        from swarm_node.policy.loading import configured_policy  # now: it loads torch
        from swarm_node.policy.soundness import Damaged
    try:
        policy = configured_policy(config, checkpoint)
    except Damaged as error:
        raise UserError(
            f"checkpoint {checkpoint} is damaged ({error}): move it away to ask the one before it, "
            "or restore a backup"
        ) from error
    now: list[str] = []
    places: list[int] | None = None
    for text in _likeliest(config, policy, prompts):
        now.append(text)
        if (places := choose(now)) is not None:
            break
    places = places or []
    chosen = [prompts[k] for k in places]
    later = [now[k] for k in places]
    if config.model.lora_rank:
        with policy.without_adapters():
            return places, list(_likeliest(config, policy, chosen)), later
    del policy  # so that memory never holds two sets of weights
    return places, list(_likeliest(config, configured_policy(config), chosen)), later


def _likeliest(config: NodeConfig, policy: "Policy", prompts: Sequence[str]) -> Iterator[str]:
    import torch

    for prompt in prompts:
        ids = torch.tensor([policy.encode_prompt(prompt)], device=policy.device)
        made = policy.model.generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=config.generation.max_completion_length,
            do_sample=False,
            pad_token_id=policy.pad_id,
        )
        completion = made[0, ids.shape[1] :].tolist()
        (text,) = policy.decode([completion])
        cut = [text.partition(stop)[0] for stop in config.generation.stop]
        yield min(cut, key=len, default=text)


ASK = Command(QuestionConfig, PAGE, command)
