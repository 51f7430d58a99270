"""What a configuration can name: kinds of environments, their tasks, and what to say of a task that nobody has."""

import difflib
from collections.abc import Sequence
from typing import Protocol

from protocol.limits import MAX_QUESTIONS_PER_ROUND
from protocol.messages import PeerId, Question, Round
from swarm_node.common.errors import UserError
from swarm_node.environments.rewards import Scoring
from swarm_node.interfaces import Environment
from swarm_node.rollouts.catalogue import Tasks
from swarm_node.settings import EnvironmentConfig

EVALUATION = PeerId("evaluation")  # no key makes this id, so no peer asks these questions; see `held_out`


class UnknownTaskError(UserError, ValueError):
    """A task that no environment offers."""


class AskingEnvironment(Environment, Protocol):
    """An environment that asks some tasks in turn."""

    tasks: tuple[tuple[str, str], ...]  # (dataset, config id)
    count: int | None  # questions there are in all; None where there is no end

    def prepare(self) -> None:
        """Start what takes seconds to start, without waiting for it. UserError where it cannot be started."""
        ...


class EnvironmentKind(Protocol):
    """An environment that can be started: what is registered under `swarm_node.environments`. Kinds inherit from it."""

    @property
    def name(self) -> str:
        """What its questions carry."""
        ...

    @property
    def tasks(self) -> Tasks:
        """What it can ask."""
        ...

    @property
    def default_tasks(self) -> Sequence[str]:
        """Asked where a configuration names this environment and no task."""
        return ()

    def brought(self, settings: EnvironmentConfig) -> Sequence[str]:
        """Tasks of what the user brings, such as a file: asked where a configuration names no task."""
        return ()

    def leaves(self, settings: EnvironmentConfig) -> str:
        """What of the user's the completions quote, and so leaves this machine; nothing where questions are public."""
        return ""

    @property
    def scorers(self) -> Sequence[str]:
        """Names of the scorers that `eval` compares; the first, "", is the one that trains."""
        return ("",)

    @property
    def evaluated(self) -> Scoring:
        """How `eval` pays."""
        return "exact"

    def why_not(self, task: str) -> str | None:
        """Why a task that one could expect is not offered."""
        return None

    def start(self, tasks: Sequence[str], settings: EnvironmentConfig, scorer: str = "") -> AskingEnvironment:
        """One that asks these of its tasks and rebuilds all of them. UserError where the settings do not allow it."""
        ...

    def answer(self, question: Question) -> str:
        """The right answer, for simulated attackers. UserError where the environment does not tell."""
        raise UserError(f"attackers know no answers of {question.environment}")


def find(task: str, kinds: Sequence[EnvironmentKind]) -> EnvironmentKind:
    """The kind that offers the task. UnknownTaskError: one line, with what was probably meant."""
    dataset, config_id = split_task(task)
    for kind in kinds:
        if config_id in kind.tasks.get(dataset, ()):
            return kind
    for kind in kinds:
        if reason := kind.why_not(task):
            raise UnknownTaskError(f"task {task!r} {reason}")
    offered: dict[str, list[str]] = {}
    for kind in kinds:
        for name, config_ids in kind.tasks.items():
            offered.setdefault(name, []).extend(config_ids)
    if dataset in offered:
        raise UnknownTaskError(f"unknown task {task!r}: {_nearest(dataset, config_id, offered)}")
    for close in difflib.get_close_matches(dataset, offered, n=1):
        raise UnknownTaskError(f"unknown task {task!r}: {_nearest(close, config_id, offered)}")
    raise UnknownTaskError(f"unknown task {task!r}: names are dataset/config_id, e.g. chain_sum/easy")


def _nearest(dataset: str, config_id: str, offered: Tasks) -> str:
    close = difflib.get_close_matches(config_id, offered[dataset], n=1, cutoff=0.0)
    return f"did you mean '{dataset}/{close[0]}'? {dataset} has {', '.join(offered[dataset])}"


def split_task(task: str) -> tuple[str, str]:
    """("chain_sum", "easy") of "chain_sum/easy"."""
    dataset, _, config_id = task.partition("/")
    return dataset, config_id


def held_out(environment: AskingEnvironment, count: int) -> list[Question]:
    """Questions for `swarm-node eval` and for validation, `count` in all, over the tasks in turn: of an author that
    cannot exist.

    Their addresses are nobody's; a question itself may still have been asked, where a task has few (chain_sum/tiny has
    not many sums), and so may the one of a neighbouring seed, since reasoning-gym derives an item from seed + index.
    """
    tasks = len(environment.tasks)
    page = MAX_QUESTIONS_PER_ROUND // tasks * tasks or MAX_QUESTIONS_PER_ROUND  # whole turns: as many of each task
    full, rest = divmod(count, page)
    sizes = [page] * full + [rest] * (rest > 0)
    return [q for now, size in enumerate(sizes) for q in environment.sample(EVALUATION, Round(now), size)]
