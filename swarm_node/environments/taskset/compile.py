"""Turns a task set into questions, in a process that ends at once (`../elsewhere.py`): `python
-m ...taskset.compile`, not for people. The node runs it twice and compares the results: what
differs, no peer could rebuild.
"""

import asyncio
import hashlib
import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

from swarm_node.common.errors import UserError
from swarm_node.common.parsing import parse_json
from swarm_node.environments import elsewhere
from swarm_node.environments.split import (
    HELD_OUT,
    LONG_PROMPT,
    MAX_CHARS,
    MAX_PROMPT_CHARS,
    TRAIN,
    share,
)
from swarm_node.scoring.bound import RULES
from swarm_node.settings.questions import TasksetConfig

MOST = 10_000  # questions that are read
TRIED = 16  # questions whose scores are compared
RAISED = "raised"


def read(asked: Any, out: str) -> dict[str, Any]:
    """Calls `compiled` with a configuration as JSON holds it."""
    return compiled(TasksetConfig.model_validate(asked), Path(out))


def compiled(config: TasksetConfig, out: Path) -> dict[str, Any]:
    """The facts of a task set; its questions are written to `out`."""
    from swarm_node.environments.taskset import library

    options = parse_json(config.options or "{}")
    found = library.loaded(config.name, options)
    read = Read()
    try:
        for task in found.tasks(MOST):
            read.add(task, config)
    except UserError:
        raise
    except Exception as error:  # whatever its code raises
        raise UserError(
            f"task set {config.name} cannot be read, its own code raises {type(error).__name__}: "
            f"{error}"
        ) from error
    if not read.sides[TRAIN]:
        raise UserError(
            f"task set {config.name} has no question to train on: lower taskset.held_out, or see "
            "that its prompts are text"
        )
    agreed = {
        "hashes": sorted(read.hashes),
        "code": found.code(),
        "options": options,
        "held_out": config.held_out,
        # Peers who pay for other completions have another version
        "rules": RULES,
    }
    version = (
        "sha256." + hashlib.sha256(json.dumps(agreed, sort_keys=True).encode()).hexdigest()[:32]
    )
    name = os.path.abspath(config.name) if config.name.endswith(".py") else config.name
    written = {
        "version": version,
        "name": name,
        "options": options,
        "rows": read.sides,
        "tries": read.tries,
    }
    out.write_text(json.dumps(written), encoding="ascii")
    counts = {
        "train": len(read.sides[TRAIN]),
        "held_out": len(read.sides[HELD_OUT]),
        "left_out": dict(read.left_out),
    }
    return {"version": version, **counts, "hashes": read.hashes, "tries": read.tries}


class Read:
    """The questions of a task set, as far as it is read."""

    def __init__(self) -> None:
        self.sides: dict[str, list[tuple[str, dict[str, Any]]]] = {TRAIN: [], HELD_OUT: []}
        self.left_out = Counter[str]()
        self.hashes: list[str] = []
        self.tries: list[dict[str, Any]] = []
        self._chars = 0

    def add(self, task: Any, config: TasksetConfig) -> None:
        """Adds a task. UserError where peers could not score it, unless `alone` is set, or where
        there are too many.
        """
        from swarm_node.environments.taskset import library

        if not config.alone and (reason := library.unscorable(task)):
            raise UserError(
                f"task set {config.name}: {reason}; set taskset.alone to train on it without "
                "sharing"
            )
        prompt, data = library.prompt_of(task.data), library.dumped(task.data)
        if not prompt or len(prompt) > MAX_PROMPT_CHARS:
            self.left_out[LONG_PROMPT if prompt else library.NOT_TEXT] += 1
            return
        self._chars += len(json.dumps(data))
        if self._chars > MAX_CHARS:
            raise UserError(
                f"task set {config.name}: more than {MAX_CHARS >> 20} MB of questions; "
                "take a part of it by an option of its own, in taskset.options"
            )
        self.hashes.append(task.hash)
        self.sides[HELD_OUT if share(prompt) < config.held_out else TRAIN].append((prompt, data))
        if len(self.tries) < TRIED and not config.alone:
            self.tries.append(_tried(task, prompt, library.texts_to_try(data, prompt)))


def _tried(task: Any, prompt: str, texts: list[str]) -> dict[str, Any]:
    """A question with completions and their scores, as verifiers itself computes them."""
    from swarm_node.environments.taskset.library import dumped, scored

    scores: list[float | str] = []
    for text in texts:
        try:
            scores.append(asyncio.run(scored(task, prompt, text)))
        except Exception:  # noqa: BLE001  whatever a reward raises: all processes must raise alike
            scores.append(RAISED)
    return {"prompt": prompt, "data": dumped(task.data), "texts": texts, "scores": scores}


if __name__ == "__main__":
    elsewhere.answer(read)
