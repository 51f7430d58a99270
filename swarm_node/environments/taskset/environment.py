"""A task set of verifiers behind the Environment seam: tasks taskset/train and taskset/held_out."""

import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from itertools import zip_longest
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from protocol.messages import Turn
from swarm_node.common import redaction
from swarm_node.common.batched import paired
from swarm_node.common.children import without_secrets
from swarm_node.common.errors import UserError, printable
from swarm_node.environments import elsewhere
from swarm_node.environments.kinds import EnvironmentKind, HasEnvironments
from swarm_node.environments.split import TRAIN
from swarm_node.environments.split_environment import SplitEnvironment, tasks_of
from swarm_node.environments.taskset.written import episodes_of, how_it_went
from swarm_node.rollouts.groups import Catalogue, Skipped, Tasks
from swarm_node.scoring.client import (
    Reply,
    Request,
    Scoring,
    ScoringClient,
    ScoringPool,
    slow_workers,
)
from swarm_node.scoring.contract import AFTER_THE_END, Replay
from swarm_node.settings import EnvironmentConfig
from swarm_node.settings.questions import TasksetConfig

NAME = "taskset"
SOURCE = "swarm_node.environments.taskset.source:TasksetSource"
EPISODES = "swarm_node.environments.taskset.source:EpisodesSource"
TRIED = "tried"  # see `source.py`
# Megabytes of address space that a scoring process needs at least: verifiers is large
MEMORY = 4096
TASKS: Tasks = tasks_of(NAME)


class Findings(BaseModel):
    """What one process found in a task set."""

    model_config = ConfigDict(frozen=True)

    version: str
    train: int  # questions
    held_out: int
    left_out: dict[str, int]  # reason -> questions
    hashes: list[str]  # of all questions, in order
    tries: list[dict[str, Any]]  # questions with completions or episodes, and their scores
    turns: int = 1  # of an episode, at most
    probe: tuple[Turn, ...] = ()  # of a task set of several turns: see `contract.Source`


# Reads a task set once for each file, in processes that know nothing of each other
Reader = Callable[[TasksetConfig, Sequence[Path]], list[Findings]]


class TasksetEnvironment(SplitEnvironment):
    """Asks the questions of a task set of the library verifiers. It accepts the task set only if
    two processes, and the sandbox, came to the same questions and scores.
    """

    def __init__(
        self,
        tasks: Sequence[str],
        config: TasksetConfig,
        settings: EnvironmentConfig,
        read: "Reader | None" = None,
    ) -> None:
        """`read`: who reads the task set; by default processes that end at once."""
        folder = tempfile.TemporaryDirectory(prefix="swarm-node-taskset-")
        files = [Path(folder.name, f"{number}.json") for number in range(1 if config.alone else 2)]
        self._alone, self._handed = config.alone, handed(config)
        scoring: Scoring | None = None
        try:
            self.facts, *others = (read or _read)(config, files)
            scoring = self._scoring_of(settings, files[0])
            for other in others:
                compare(config.name, self.facts, other)
            if not config.alone:
                compare_scores(config.name, self.facts, scoring)
        except BaseException:
            if scoring is not None:
                scoring.close()
            folder.cleanup()
            raise
        about = NAME, self.facts.version, self.facts.held_out, tasks, scoring, settings, folder
        super().__init__(*about, turns=self.facts.turns, probe=self.facts.probe)
        # A constant: to compute one takes scores, which may cost something, and no peer compares it
        if self._alone:
            self._digests = {(NAME, side): "A" * 11 for side in TASKS[NAME]}

    @property
    def catalogue(self) -> Catalogue:
        """Empty if trained on alone: then none of its groups are published, and no external ones
        are admitted.
        """
        return Catalogue() if self._alone else super().catalogue

    def _scoring_of(self, settings: EnvironmentConfig, file: Path) -> Scoring:
        version = self.facts.version
        if self._alone:
            return AloneScoring(file, version, self._handed)
        kind = EPISODES if self.facts.turns > 1 else SOURCE
        source, limits = f"{kind}?{file}", (settings.time_limit, MEMORY)
        return ScoringPool(lambda: ScoringClient(source, version, *limits), slow_workers())


class AloneScoring(ScoringClient):
    """The node's end of `open.py`, a process in the user's folder, with the user's variables except
    secrets, of which it gets those that the user names. It scores outside the sandbox: local
    completions only.
    """

    start_limit = 300.0  # seconds: verifiers is large, and a task set may import more

    def __init__(self, file: Path, version: str, handed: Mapping[str, str] | None = None) -> None:
        super().__init__("", version, 0.0)
        self._handed = handed or {}
        # Seconds for the scores of a group: another model may score
        self._file, self.patience = file, 300.0

    def _program(self, lifeline: int) -> dict[str, Any]:
        command = [
            sys.executable,
            "-P",
            "-m",
            "swarm_node.environments.taskset.open",
            str(self._file),
        ]
        return {"args": command, "env": without_secrets(self._handed)}

    def _last_words(self, cause: Exception | None) -> str:
        return redaction.without_secrets(super()._last_words(cause), self._handed.values())


def handed(config: TasksetConfig) -> dict[str, str]:
    """The variables that the user hands on. UserError for one that is not set."""
    for name in config.variables:
        if name not in os.environ:
            raise UserError(f"--taskset.variables names {name}, which is not set: export it first")
    return {name: os.environ[name] for name in config.variables}


def _read(config: TasksetConfig, files: Sequence[Path]) -> list[Findings]:
    """Reads the task set in one process per file, all at the same time, each with another order of
    sets.
    """
    if not config.name:
        raise UserError("task taskset/train needs a task set: name it with taskset.name")
    if find_spec("verifiers") is None:
        raise UserError("task sets need the extra verifiers: pip install 'textswarm[verifiers]'")
    module, what = "swarm_node.environments.taskset.compile", f"task set {config.name}"
    variables = handed(config)

    def read(numbered: tuple[int, Path]) -> Findings:
        number, file = numbered
        environment = without_secrets({**variables, "PYTHONHASHSEED": str(number)})
        try:
            said = elsewhere.ask(module, config, file, what, environment)
        except UserError as error:
            clean = redaction.without_secrets(str(error), variables.values())
            raise type(error)(clean) from None
        return Findings.model_validate_json(said)

    with ThreadPoolExecutor(len(files)) as pool:
        return list(pool.map(read, enumerate(files, 1)))


def compare(name: str, first: Findings, second: Findings) -> None:
    """UserError for what differs between two processes: no peer could rebuild it. The library
    promises nothing about chance, time and files, and a list of forbidden calls could only guess
    where a task set uses them.
    """
    for place, (one, other) in enumerate(zip_longest(first.hashes, second.hashes)):
        if one != other:
            raise UserError(
                f"task set {name}: question {place} of two processes differs: it must not depend "
                "on chance, time or the order of a set; give its chance a fixed seed, or set "
                "taskset.alone to train on it without sharing"
            )
    for one_try, other_try in zip(first.tries, second.tries, strict=True):
        _same_scores(name, one_try, other_try["scores"], "another process")


def compare_scores(name: str, facts: Findings, scoring: Scoring) -> None:
    """UserError where a score is outside [0, 1] or differs in the sandbox, which scores all
    external completions.
    """
    replies = scoring.ask(list(_requests(facts)))
    for tried, found in paired(facts.tries, list(_found(facts, replies))):
        scores = [score for score in map(_score, tried["scores"]) if not isinstance(score, str)]
        if any(not 0.0 <= score <= 1.0 for score in scores):
            raise UserError(
                f"task set {name}: a completion scores {max(scores, key=abs):g}, and a score is "
                "in [0, 1]: give its rewards weights that add up to 1"
            )
        _same_scores(
            name, tried, found, "the sandbox, which has no network, files, threads and timers"
        )


def _requests(facts: Findings) -> Iterator[Request]:
    """What the sandbox is asked: each completion by itself, or all episodes of a question."""
    for number, tried in enumerate(facts.tries):
        if facts.turns > 1:
            yield NAME, TRIED, 0, number, episodes_of(tried["episodes"])
            continue
        for text in tried["texts"]:
            yield NAME, TRIED, 0, number, (text,)


def _found(facts: Findings, replies: Sequence[Reply]) -> Iterator[list[Any]]:
    """The scores of the sandbox for each question, in the form of its `scores`."""
    left = iter(replies)
    for tried in facts.tries:
        if facts.turns > 1:
            yield _episodes_of_reply(next(left), len(tried["episodes"]))
        else:
            here = [next(left) for _ in tried["texts"]]
            yield ["raised" if isinstance(reply, Skipped) else reply[0] for reply in here]


def _episodes_of_reply(reply: Reply, count: int) -> list[Any]:
    if isinstance(reply, Skipped):
        return [reply.reason] * count
    return [how_it_went(each) if isinstance(each, Replay) else AFTER_THE_END for each in reply]


def _score(tried: Any) -> Any:
    """The score of a completion or an episode; a text where it has none."""
    return tried[0] if isinstance(tried, list) else tried


def _same_scores(name: str, tried: dict[str, Any], found: Sequence[Any], where: str) -> None:
    for asked, here, there in zip(_asked(tried), tried["scores"], found, strict=True):
        if here == there:
            continue
        shown = repr(printable(asked, 40))
        if _score(here) == _score(there):
            raise UserError(
                f"task set {name}: its tools or turns reply to {shown} differently in one process "
                f"and in {where}; make them depend only on the episode, or set "
                "taskset.alone to train on it without sharing"
            )
        raise UserError(
            f"task set {name}: {shown} scores {_score(here)} in one process and {_score(there)} in "
            f"{where}; make its reward depend only on the completion, or set taskset.alone to "
            "train on it without sharing"
        )


def _asked(tried: dict[str, Any]) -> list[str]:
    """What was tried, to be shown: a completion, or the last turn of an episode."""
    if "texts" in tried:
        return list(tried["texts"])
    return [turns[-1][0] for turns in tried["episodes"]]


class TasksetKind(EnvironmentKind):
    """The kind that is registered: a task set that the configuration names."""

    name = NAME
    tasks = TASKS

    def brought(self, config: HasEnvironments) -> Sequence[str]:
        return (f"{NAME}/{TRAIN}",) if config.taskset.name else ()

    def leaves(self, config: HasEnvironments) -> str:
        own = config.taskset
        return "" if own.alone else f"the questions of {own.name}"

    def variables(self, config: HasEnvironments) -> Sequence[str]:
        return config.taskset.variables

    def start(self, tasks: Sequence[str], config: HasEnvironments) -> TasksetEnvironment:
        return TasksetEnvironment(tasks, config.taskset, config.environment)


KIND = TasksetKind()
