"""The questions of a task set as a source (`scoring/contract.py`). Runs in the scoring process
only.
"""

import asyncio
import contextlib
import json
import os
import signal
import time
from pathlib import Path
from typing import Any

from swarm_node.environments.split import place
from swarm_node.environments.taskset import library
from swarm_node.scoring.bound import bound_of, plain

TRIED = "tried"  # config id of the questions whose scores are compared; no address of a peer has it


class TaskItem:
    """One task, scored by its own rewards."""

    def __init__(self, prompt: str, task: Any, bounded: bool = True) -> None:
        """`bounded`: whether text beside the task's own answer is unpaid."""
        self.prompt = prompt
        self.task = task
        self._bounded = bounded

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
        signal.alarm = signal.setitimer = lambda *_: 0  # type: ignore[assignment]  # the parent process keeps the time
        return run(library.scored(self.task, self.prompt, text))


class TasksetSource:
    """The questions of a file that `compile.py` wrote."""

    def __init__(self, file: str) -> None:
        written = json.loads(Path(file).read_bytes())
        self.version: str = written["version"]
        self._rows: dict[str, list[tuple[str, dict[str, Any]]]] = written["rows"]
        self._tries: list[dict[str, Any]] = written["tries"]
        self._library = library.Library(written["name"], written["options"])
        self._warm()

    def build(self, dataset: str, config_id: str, seed: int, index: int) -> TaskItem:
        """The question at an address. KeyError for an unknown side, ZeroDivisionError for one
        without questions.
        """
        if config_id == TRIED:
            tried = self._tries[index]
            return TaskItem(tried["prompt"], self._library.rebuilt(tried["data"]), bounded=False)
        rows = self._rows[config_id]
        prompt, data = rows[place(config_id, seed, index, len(rows))]
        return TaskItem(prompt, self._library.rebuilt(data))

    def _warm(self) -> None:
        """Imports what a reward imports when it is first called: a sandboxed child can open no
        file.
        """
        for tried in self._tries[:2]:
            for text in tried["texts"]:
                with contextlib.suppress(Exception):
                    run(library.scored(self._library.rebuilt(tried["data"]), tried["prompt"], text))


class QuietLoop(asyncio.BaseEventLoop):
    """Runs coroutines that wait for nothing outside, without a descriptor: a sandboxed child can
    open none.
    """

    def __init__(self) -> None:
        super().__init__()
        self._selector = self

    def select(self, timeout: float | None) -> list[Any]:
        """Waits for `timeout` seconds; there are no events. RuntimeError for None, which would wait
        for ever.
        """
        if timeout is None:
            raise RuntimeError("a reward waits for something outside its process")
        until = time.monotonic() + timeout
        while time.monotonic() < until:
            os.sched_yield()
        return []

    def _process_events(self, events: list[Any]) -> None:
        pass

    def _write_to_self(self) -> None:
        pass


def run(coroutine: Any) -> float:
    """The result of a coroutine, in a loop of its own."""
    loop = QuietLoop()
    try:
        found: float = loop.run_until_complete(coroutine)
        return found
    finally:
        loop.close()
