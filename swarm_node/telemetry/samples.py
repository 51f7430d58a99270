"""Samples of rollouts on disk: at most one a second on average, in a ring of two files that is bounded in bytes.

They are for looking at: prompts, completions and what became of them. Text of strangers is cut, and otherwise kept as
it came; whoever shows it has to treat it as data.
"""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from swarm_node.telemetry.lines import Lines

FILE, OLDER = "rollouts.jsonl", "rollouts.old.jsonl"
PROMPT_CHARS, COMPLETION_CHARS = 8000, 4000
COMPLETIONS = 16  # of a group
MOST_AT_ONCE = 16  # samples of a long round

Advantages = Callable[[Sequence[float]], list[float]]


@dataclass(frozen=True, slots=True)
class Sample:
    """A scored group, and what became of it."""

    author: str  # peer id
    task: str
    prompt: str
    completions: Sequence[tuple[str, bool]]  # text, and whether it ended by itself
    rewards: Sequence[float]
    local: bool
    trained: bool
    why: str  # it was not trained on; "" where it was


class SampleRing:
    """Appends to `rollouts.jsonl`; when that is half the bound, it becomes the older half. A disk that is full costs
    samples and one warning, nothing else."""

    def __init__(
        self,
        folder: Path,
        most_bytes: int,
        advantages: Advantages,
        warn: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        """`clock` decides when a sample is due; `now` is the time of day that is written."""
        self._path, self._older = folder / FILE, folder / OLDER
        self._half = most_bytes // 2
        self._advantages, self._warn, self._clock, self._now = advantages, warn, clock, now
        self._since = clock() - 1.0  # the first round has one
        self._turn = 0
        self._warned = False

    def due(self) -> int:
        """Samples that may be taken now: whole seconds since the last ones, to a limit."""
        return min(int(self._clock() - self._since), MOST_AT_ONCE)

    def take(self, number: int, samples: Sequence[Sample]) -> None:
        """Of what a round had, as many as are due, from each kind in turn."""
        due = self.due()
        if not due or not samples:
            return
        self._since = self._clock()
        for sample in self._chosen(samples, due):
            try:
                self._write(json.dumps(self._record(number, sample), ensure_ascii=True).encode() + b"\n")
            except OSError as error:
                if not self._warned:
                    self._warn(f"cannot write {self._path}: {error.strerror}; the run goes on without samples")
                self._warned = True
                return

    def _chosen(self, samples: Sequence[Sample], due: int) -> Iterator[Sample]:
        """Local, trained external and left-out external ones in turn; which of each kind, a counter says: what is
        random here belongs to learning."""
        kinds = [[], [], []]  # type: list[list[Sample]]
        for sample in samples:
            kinds[0 if sample.local else 1 if sample.trained else 2].append(sample)
        for _ in range(min(due, len(samples))):
            left = [kind for kind in kinds if kind]
            kind = left[self._turn % len(left)]
            yield kind.pop(self._turn // 3 % len(kind))
            self._turn += 1

    def _write(self, line: bytes) -> None:
        """The ring never holds more than its bound, the line included."""
        if len(line) > self._half:
            return
        size = self._path.stat().st_size if self._path.exists() else 0
        if size + len(line) > self._half:
            self._path.replace(self._older)
        with closing(Lines(self._path)) as lines:
            lines.append(line)

    def _record(self, number: int, sample: Sample) -> dict[str, Any]:
        advantages = self._advantages(sample.rewards)
        rows = zip(sample.completions, sample.rewards, advantages, strict=True)
        return {
            "time": round(self._now(), 3),
            "round": number,
            "author": sample.author,
            "local": sample.local,
            "trained": sample.trained,
            "why": sample.why,
            "task": sample.task,
            "prompt": _cut(sample.prompt, PROMPT_CHARS),
            "left_out": max(0, len(sample.rewards) - COMPLETIONS),
            "completions": [
                {
                    "text": _cut(text, COMPLETION_CHARS),
                    "reward": reward,
                    "advantage": round(advantage, 4),
                    "ended": ended,
                }
                for (text, ended), reward, advantage in list(rows)[:COMPLETIONS]
            ],
        }


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text) - limit} more characters)"
