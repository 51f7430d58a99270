"""Kinds of environments and their tasks, which a configuration can name. Also the message for an
unknown task, and the held-out questions of an environment.
"""

import difflib
from collections.abc import Sequence
from typing import Protocol

from protocol.addressing import HELD_OUT, HELD_OUT_ROUNDS
from protocol.limits import MAX_QUESTIONS_PER_ROUND
from protocol.messages import Question, Round
from swarm_node.common.errors import UserError
from swarm_node.environments.rewards import Scoring
from swarm_node.environments.scored import ScoredEnvironment
from swarm_node.environments.scored import split_task as split_task
from swarm_node.rollouts.groups import Tasks
from swarm_node.settings import DatasetConfig, EnvironmentConfig, TasksetConfig, TemporalClueConfig

EVALUATION = HELD_OUT  # see `held_out`

Task = tuple[str, str]  # dataset, config id


class HasEnvironments(Protocol):
    """A configuration with environments, as `run`, `simulate` and `contribute` have it: their
    options, and the swarm. `settings.section_of` finds a section that another package brings.
    """

    @property
    def environment(self) -> EnvironmentConfig: ...

    @property
    def dataset(self) -> DatasetConfig: ...

    @property
    def taskset(self) -> TasksetConfig: ...

    @property
    def temporal_clue(self) -> TemporalClueConfig: ...

    @property
    def swarm(self) -> str: ...


class UnknownTaskError(UserError, ValueError):
    """A task that no environment offers."""


class EnvironmentKind(Protocol):
    """The base of what is registered under `swarm_node.environments`: an environment that can be
    started.
    """

    # Whether its default tasks are asked if a configuration names neither tasks nor environments
    usual: bool = False
    # What a pre-trained model learns first, in this order, if no task is named
    first_tasks: Sequence[str] = ()
    # Whether the model continues the prompt, as with shots; the answer is the rest of a line
    continued: bool = False
    evaluated: Scoring = "exact"  # the rule from scores to rewards in `eval`

    @property
    def name(self) -> str:
        """The environment name in its questions."""
        ...

    @property
    def tasks(self) -> Tasks:
        """All its tasks."""
        ...

    @property
    def default_tasks(self) -> Sequence[str]:
        """The tasks if a configuration names this environment and no task."""
        return ()

    @property
    def candidates(self) -> Sequence[str]:
        """The tasks from which a node chooses if none is named, for a small pre-trained model, such
        as one of a hundred million parameters on a CPU. The first ones are asked first.
        """
        return ()

    @property
    def larger_candidates(self) -> Sequence[str]:
        """The tasks from which a node chooses if none is named, for a larger model, which answers
        as in a chat.
        """
        return ()

    def brought(self, config: HasEnvironments) -> Sequence[str]:
        """The tasks of what the user brings, such as a file. They are asked if a configuration
        names no task.
        """
        return ()

    def leaves(self, config: HasEnvironments) -> str:
        """The user's data that completions quote and so take off this machine; empty if all
        questions are public.
        """
        return ""

    def why_not(self, task: str) -> str | None:
        """The reason why an expected task is not offered, if there is one."""
        return None

    def variables(self, config: HasEnvironments) -> Sequence[str]:
        """Names of environment variables that the user hands to the processes which score, although
        they may hold secrets.
        """
        return ()

    def fetch(self, config: HasEnvironments) -> None:
        """Gets what the user brings and only the user's own process can get, with a token or by a
        proxy, before processes start that have neither. Raises UserError.
        """
        return None

    def start(self, tasks: Sequence[str], config: HasEnvironments) -> ScoredEnvironment:
        """An environment that uses these tasks and rebuilds all of this kind. Raises UserError if
        the options do not allow it.
        """
        ...

    def answer(self, question: Question) -> str:
        """The reference answer, for simulated attackers. Raises UserError if the environment does
        not offer it.
        """
        raise UserError(
            f"attackers do not know the answers of {question.environment}: name tasks "
            "of reasoning-gym with --attack"
        )


def find(task: str, kinds: Sequence[EnvironmentKind]) -> EnvironmentKind:
    """The kind that offers the task. UnknownTaskError: one line, with the task that was probably
    meant.
    """
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
    raise UnknownTaskError(
        f"unknown task {task!r}: names are dataset/config_id, e.g. chain_sum/easy"
    )


def _nearest(dataset: str, config_id: str, offered: Tasks) -> str:
    close = difflib.get_close_matches(config_id, offered[dataset], n=1, cutoff=0.0)
    return f"did you mean '{dataset}/{close[0]}'? {dataset} has {', '.join(offered[dataset])}"


def held_out(environment: ScoredEnvironment, count: int) -> list[Question]:
    """`count` questions for `swarm-node model eval` and for validation, over the tasks in turn.

    No key makes their author's name, so no peer asks them. The environments that ship keep their
    texts apart, too.
    """
    tasks = len(environment.tasks)
    # Whole turns: all tasks equally often
    page = MAX_QUESTIONS_PER_ROUND // tasks * tasks or MAX_QUESTIONS_PER_ROUND
    full, rest = divmod(count, page)
    if count > page * HELD_OUT_ROUNDS:
        raise UserError(
            f"{count} held-out questions were asked for, and there are only "
            f"{page * HELD_OUT_ROUNDS}: ask for fewer, with --questions or validation.questions"
        )
    sizes = [page] * full + [rest] * (rest > 0)
    questions: list[Question] = []
    for now, size in enumerate(sizes):
        questions += environment.sample(EVALUATION, Round(now), size)
    return questions
