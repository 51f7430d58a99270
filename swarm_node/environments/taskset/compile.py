"""Turns a task set into questions, in a process that ends at once (`../elsewhere.py`): `python
-m ...taskset.compile`, not for people. The node runs it twice and compares the results: what
differs, no peer could rebuild.
"""

import asyncio
import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from protocol.limits import MAX_CALLS
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
from swarm_node.environments.taskset.written import how_it_went
from swarm_node.scoring import contract, playing
from swarm_node.scoring.bound import RULES
from swarm_node.scoring.contract import Call, Replay, Turn
from swarm_node.settings.questions import TasksetConfig

if TYPE_CHECKING:
    from swarm_node.environments.taskset.exchange import TaskEpisode
    from swarm_node.environments.taskset.library import Library, Prepared

MOST = 10_000  # questions that are read
MOST_ENDLESS = 1_000  # of a task set that makes episodes for ever: each is begun once
TRIED = 16  # questions whose scores are compared
TRIED_TEXTS = 4  # that a policy says throughout an episode, in such a try
RAISED = "raised"


def read(asked: Any, out: str) -> dict[str, Any]:
    """Calls `compiled` with a configuration as JSON holds it."""
    return compiled(TasksetConfig.model_validate(asked), Path(out))


def compiled(config: TasksetConfig, out: Path) -> dict[str, Any]:
    """The facts of a task set; its questions are written to `out`."""
    from swarm_node.environments.taskset import library

    options = parse_json(config.options or "{}")
    found = library.loaded(config.name, options)
    read = Read(found, config)
    try:
        most = MOST_ENDLESS if found.several and found.endless else MOST
        for task in found.tasks(most):
            read.add(task)
    except UserError:
        raise
    except Exception as error:  # whatever its code raises
        raise UserError(
            f"task set {config.name} cannot be read, its own code raises {type(error).__name__}: "
            f"{error}"
        ) from error
    if not read.sides[TRAIN]:
        raise UserError(
            f"task set {config.name} has no question to train on{read.why_none()}: lower "
            "taskset.held_out, or check that its prompts are text"
        )
    turns = config.turns if found.several else 1
    agreed = {
        "hashes": sorted(read.hashes),
        "code": found.code(),
        "options": options,
        "held_out": config.held_out,
        # Peers who pay for other completions have another version
        "rules": RULES,
    }
    # Only where there is something to agree on: other task sets keep the version that they had
    agreed |= {"turns": turns} if found.several else {}
    agreed |= {"packages": read.packages} if read.packages else {}
    version = (
        "sha256." + hashlib.sha256(json.dumps(agreed, sort_keys=True).encode()).hexdigest()[:32]
    )
    name = os.path.abspath(config.name) if config.name.endswith(".py") else config.name
    written = {
        "version": version,
        "name": name,
        "options": options,
        "turns": turns,
        "rows": read.sides,
        "tries": read.tries,
    }
    out.write_text(json.dumps(written), encoding="ascii")
    counts = {
        "train": len(read.sides[TRAIN]),
        "held_out": len(read.sides[HELD_OUT]),
        "left_out": dict(read.left_out),
    }
    several = {"turns": turns, "probe": probe_of(found)} if found.several else {}
    told = {"hashes": read.hashes, "tries": read.tries}
    return {"version": version, **counts, **told, **several}


def probe_of(library: "Library") -> list[list[Any]]:
    """The turns with which the digest of a task set of several turns is made: calls of its tools,
    and a text.
    """
    names = list(library.parameters())[:MAX_CALLS]
    calls = [[name, "{}"] for name in names]
    return [*([["", calls]] if calls else []), ["0", []], ["1", []]]


class Read:
    """The questions of a task set, as far as it is read."""

    def __init__(self, library: "Library", config: TasksetConfig) -> None:
        self.sides: dict[str, list[dict[str, Any]]] = {TRAIN: [], HELD_OUT: []}
        self.left_out = Counter[str]()
        # Of all questions, in order: with what its setup left, where it left something
        self.hashes: list[str] = []
        self.tries: list[dict[str, Any]] = []
        self.packages: dict[str, str] = {}  # versions of what scripts of rewards need
        self._library, self._config = library, config
        self._chars = 0

    def why_none(self) -> str:
        """Why questions were left out, for a message; "" where none were."""
        reasons = [f"{count} {reason}" for reason, count in self.left_out.most_common()]
        return f" ({', '.join(reasons)} skipped)" if reasons else ""

    def add(self, task: Any) -> None:
        """Adds a task. UserError where peers could not score it, unless `alone` is set, or where
        there are too many.
        """
        from swarm_node.environments.taskset import library
        from swarm_node.environments.taskset.exchange import opening_of

        name = self._config.name
        if not self._config.alone and (reason := library.unscorable(task)):
            raise UserError(
                f"task set {name}: {reason}; set taskset.alone to train on it without sharing"
            )
        prepared = self._library.prepare(task)
        if self._library.several:
            prompt = opening_of(self._library, task, prepared)
        else:
            prompt = library.prompt_of(task.data)
        if not prompt or len(prompt) > MAX_PROMPT_CHARS:
            self.left_out[LONG_PROMPT if prompt else library.NOT_TEXT] += 1
            return
        data = library.dumped(task.data)
        row = {"prompt": prompt, "data": data, "hash": task.hash, "prepared": prepared}
        self._chars += len(json.dumps([data, prepared]))
        if self._chars > MAX_CHARS:
            raise UserError(
                f"task set {name}: more than {MAX_CHARS >> 20} MB of questions; "
                "use a part of it, with an option of its own in taskset.options"
            )
        self.hashes.append(hash_of(task.hash, prepared))
        side = HELD_OUT if share(prompt) < self._config.held_out else TRAIN
        self.sides[side].append(row)
        if len(self.tries) < TRIED and not self._config.alone:
            try_out = self._tried_episodes if self._library.several else self._tried_answers
            self.tries.append(row | try_out(task, row))

    def _tried_answers(self, task: Any, row: dict[str, Any]) -> dict[str, Any]:
        """Completions of a question with their scores, as verifiers itself computes them."""
        from swarm_node.environments.taskset import library

        texts = library.texts_to_try(row["data"], row["prompt"])
        scores: list[float | str] = []
        for text in texts:
            runtime = library.runtime_for(row["prepared"])
            try:
                about = self._library, task, row["prompt"], text, row["prepared"]
                scores.append(asyncio.run(library.scored(*about, runtime)))
            except Exception as error:  # noqa: BLE001  whatever a reward raises: all must raise alike
                if runtime.wanted:
                    self._refuse_runtime(task, runtime.wanted, error)
                scores.append(RAISED)
            self.packages |= runtime.packages
        return {"texts": texts, "scores": scores}

    def _refuse_runtime(self, task: Any, wanted: str, error: Exception) -> None:
        from swarm_node.environments.taskset import library

        names = ", ".join(library.needing_runtime(task))
        raise UserError(
            f"task set {self._config.name}: its reward needs a runtime ({names} calls "
            f"runtime.{wanted}), and no peer could replay that; use another one"
        ) from error

    def _tried_episodes(self, task: Any, row: dict[str, Any]) -> dict[str, Any]:
        """Episodes of one of the first questions, and their scores here. They are compared with
        those in a second process and in the sandbox.
        """
        from swarm_node.environments.taskset.exchange import TaskEpisode

        about = self._library, row["prompt"], task, row["prepared"], self._config.turns
        episode = TaskEpisode(*about, bounded=False)
        episodes = list(self._episodes_to_try(episode, row["data"]))
        # The result of this first play is dropped: what a task imports when it is first called
        # would count as time of a turn
        playing.play(episode, episodes)
        played = playing.read(playing.play(episode, episodes), episodes)
        if isinstance(played, str):
            raise UserError(
                f"task set {self._config.name}: an episode cannot be played here ({played}); "
                "make its tools and turns depend only on the episode, each within "
                f"{contract.STEP_BUDGET} s"
            )
        return {"episodes": episodes, "scores": scores_of(played)}

    def _episodes_to_try(
        self, episode: "TaskEpisode", data: dict[str, Any]
    ) -> Iterator[list[Turn]]:
        """Nonsense, what may be the answer from the first turn to the last, and calls of each tool
        with what may be its arguments.
        """
        from swarm_node.environments.taskset import library

        texts = list(dict.fromkeys(["", "0", *library.own_texts(data)]))[:TRIED_TEXTS]
        for text in texts:
            yield episode.said_throughout(text)[0]
        named = str(data.get("name") or texts[-1])
        for name, parameters in self._library.parameters().items():
            call = Call(name, json.dumps(dict.fromkeys(parameters, named)))
            yield [Turn("", (call,)), Turn(texts[-1])]


def hash_of(task_hash: str, prepared: "Prepared") -> str:
    """The task's own hash; with what its setup left, where it left something."""
    if not prepared:
        return task_hash
    left = json.dumps(prepared, sort_keys=True)
    return hashlib.sha256(f"{task_hash} {left}".encode()).hexdigest()


def scores_of(played: Sequence[Replay | str]) -> list[Any]:
    """How episodes went, as JSON can hold it: of each its score, whether the environment ended it,
    and what it said; or why it was left out.
    """
    return [replay if isinstance(replay, str) else how_it_went(replay) for replay in played]


if __name__ == "__main__":
    elsewhere.answer(read)
