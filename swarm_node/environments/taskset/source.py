"""The questions of a task set as sources (`scoring/contract.py`): those that are answered at one
go, and episodes of several turns. Runs in the scoring process only.
"""

import contextlib
import json
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from swarm_node.environments.split import place
from swarm_node.environments.taskset import library
from swarm_node.environments.taskset.exchange import TaskEpisode
from swarm_node.environments.taskset.library import Library, Prepared
from swarm_node.environments.taskset.quiet import run
from swarm_node.environments.taskset.written import episodes_of
from swarm_node.scoring.bound import bound_of, plain

TRIED = "tried"  # config id of the questions whose scores are compared; no address of a peer has it


class OtherTask(ValueError):
    """A task does not have the hash under which it was read: its code is another one now."""


class TaskItem:
    """One task that is answered at one go, scored by its own rewards."""

    def __init__(
        self,
        task_set: Library,
        prompt: str,
        task: Any,
        prepared: Prepared,
        bounded: bool = True,
    ) -> None:
        """`bounded`: whether text beside the task's own answer is unpaid."""
        self.prompt = prompt
        self.task = task
        self._task_set, self._prepared, self._bounded = task_set, prepared, bounded

    @property
    def longest(self) -> int | None:
        """The most characters of a paid completion: see `contract.Item`. None where the task has no
        `answer` that its own rewards take for right.
        """
        answer = self._reference()
        return bound_of(answer, self.score) if self._bounded else None

    def accounts(self, text: str) -> bool:
        """Whether a text has no odd signs, where the task has an answer: see `contract.Item`."""
        return plain(text, self._reference(), self.prompt) or self.longest is None

    def _reference(self) -> str:
        """The `answer` of the task's data; empty where there is none."""
        answer = getattr(self.task.data, "answer", "")
        return str(answer) if isinstance(answer, str | int | float) else ""

    def score(self, text: str) -> float:
        """Runs in a sandboxed child, which has no sockets, threads and timers."""
        keep_time_outside()
        return run(self.scored(text))

    async def scored(self, text: str) -> float:
        """Computes the score of a text outside of the sandbox, where another model may be asked."""
        runtime = library.runtime_for(self._prepared)
        about = self._task_set, self.task, self.prompt, text, self._prepared
        return await library.scored(*about, runtime)


class SandboxedEpisode(TaskEpisode):
    """An episode that is played in a sandboxed child, which plays copies of it. The process that
    builds questions keeps its timers, by which it bounds how long that takes.
    """

    def __deepcopy__(self, memo: dict[int, Any]) -> TaskEpisode:
        keep_time_outside()
        return super().__deepcopy__(memo)


class CompiledTasks:
    """The questions of a file that `compile.py` wrote."""

    def __init__(self, file: str) -> None:
        written = json.loads(Path(file).read_bytes())
        self.version: str = written["version"]
        self.library = Library(written["name"], written["options"])
        self.turns: int = written["turns"]
        self._rows: dict[str, list[dict[str, Any]]] = written["rows"]
        self._tries: list[dict[str, Any]] = written["tries"]

    def at(self, config_id: str, seed: int, index: int) -> Mapping[str, Any]:
        """The row at an address. KeyError for an unknown side, ZeroDivisionError for one without
        questions.
        """
        if config_id == TRIED:
            return self._tries[index]
        rows = self._rows[config_id]
        return rows[place(config_id, seed, index, len(rows))]

    def task(self, row: Mapping[str, Any]) -> Any:
        """The task of a row. OtherTask where it is not the one that peers mean by this version."""
        task = self.library.rebuilt(row["data"])
        if task.hash != row["hash"]:
            raise OtherTask(task.hash)
        return task

    def few(self) -> Sequence[Mapping[str, Any]]:
        """Rows that are tried before a child is confined: it imports what a reward imports when it
        is first called, and a sandboxed child can open no file.
        """
        return self._tries[:2]


class TasksetSource:
    """Questions that are answered at one go."""

    def __init__(self, file: str) -> None:
        self._questions = CompiledTasks(file)
        self.version = self._questions.version
        for tried in self._questions.few():
            item = self._item(tried, bounded=False)
            for text in tried["texts"]:
                with contextlib.suppress(Exception):
                    run(item.scored(text))

    def build(self, dataset: str, config_id: str, seed: int, index: int) -> TaskItem:
        """The question at an address: see `CompiledTasks.at`."""
        row = self._questions.at(config_id, seed, index)
        return self._item(row, bounded=config_id != TRIED)

    def _item(self, row: Mapping[str, Any], bounded: bool) -> TaskItem:
        task = self._questions.task(row)
        about = self._questions.library, row["prompt"], task, row["prepared"]
        return TaskItem(*about, bounded)


class EpisodesSource:
    """Questions of several turns."""

    def __init__(self, file: str) -> None:
        self._questions = CompiledTasks(file)
        self.version, self.turns = self._questions.version, self._questions.turns
        for tried in self._questions.few():
            for turns in episodes_of(tried["episodes"]):
                with contextlib.suppress(Exception), contextlib.closing(self._began(tried)) as one:
                    for turn in turns:
                        one.step(turn)
                    one.score()

    def begin(self, dataset: str, config_id: str, seed: int, index: int) -> TaskEpisode:
        """The question at an address, at its beginning: see `CompiledTasks.at`."""
        row = self._questions.at(config_id, seed, index)
        return self._began(row, bounded=config_id != TRIED)

    def _began(self, row: Mapping[str, Any], bounded: bool = False) -> TaskEpisode:
        task = self._questions.task(row)
        about = self._questions.library, row["prompt"], task, row["prepared"]
        return SandboxedEpisode(*about, self.turns, bounded)


def source_of(file: str) -> TasksetSource | EpisodesSource:
    """The source that the questions of this file have."""
    turns = json.loads(Path(file).read_bytes())["turns"]
    return EpisodesSource(file) if turns > 1 else TasksetSource(file)


def keep_time_outside() -> None:
    """Takes the timers from a task set's code: its parent process keeps the time."""
    signal.alarm = signal.setitimer = lambda *_: 0  # type: ignore[assignment]
