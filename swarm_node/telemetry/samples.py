"""Samples of rollouts on disk: at most one a second on average, in a ring of two files that is
bounded in bytes.

They are for people to look at: prompts, completions, and whether they were trained on. Text of
strangers is cut, and otherwise kept as it came, so a view has to treat it as data.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from swarm_node.common import plugins
from swarm_node.common.batched import paired
from swarm_node.rollouts.advantages import ADVANTAGES, Advantages
from swarm_node.rollouts.groups import NO_BETTER, Group, Sample, Selection
from swarm_node.settings import NodeConfig, Section
from swarm_node.telemetry.events import Event, RunStarted, Sink, Telemetry, Trained
from swarm_node.telemetry.jsonlines import Lines

FILE, OLDER = "rollouts.jsonl", "rollouts.old.jsonl"
MOST_BYTES = 4 * 1024 * 1024  # of all samples on disk
PROMPT_CHARS, COMPLETION_CHARS = 8000, 4000
COMPLETIONS = 16  # of a group
MESSAGES = 192  # kept of an episode, which has at most 32 turns
MOST_AT_ONCE = 16  # samples of a long round

# A scored group and what became of it, as it is written: see `sample_of`
Record = Mapping[str, Any]


def samples(home: Path, config: Section, telemetry: Telemetry) -> "SampleWriter | None":
    """The observer of samples; None where the option is off, and for commands that train
    nothing.
    """
    if not isinstance(config, NodeConfig) or "samples" not in config.observers:
        return None
    return SampleWriter(home, config)


class SampleWriter(Sink):
    """An observer that keeps samples of what a node trains on."""

    def __init__(self, home: Path, config: NodeConfig) -> None:
        self._config = config
        self._ring = SampleRing(home, MOST_BYTES)
        self._advantages: Advantages | None = None

    def take(self, event: Event) -> None:
        """UserError where the rule for advantages, which may be a plug-in, cannot be loaded."""
        match event:
            case RunStarted():
                rule = self._config.training.scale_rewards
                self._advantages = plugins.chosen("advantages", rule, ADVANTAGES)
            case Trained(selection) if self._advantages and self._ring.due():
                self._ring.take(
                    selection.generated.round, list(samples_of(selection, self._advantages))
                )


def samples_of(selection: Selection, advantages: Advantages) -> Iterator[Record]:
    """A sample of every scored group of the round, and why it was not trained on, if it was not."""
    chosen = {id(group) for group in selection.local}
    for group in selection.generated.groups:
        why = "not selected" if group.informative else "uninformative"
        trained = group.informative and id(group) in chosen
        yield sample_of(group, advantages, local=True, why="" if trained else why)
    for group in selection.external:
        yield sample_of(group, advantages, local=False, why="" if group.from_others else NO_BETTER)
    refused = {(each.author, each.question): each.reason for each in selection.refused}
    for group in selection.considered:  # the rest of these groups are trained on, now or later
        why = refused.get((group.author, group.question), "")
        if not why and not group.informative:
            why = "uninformative"
        if why:
            yield sample_of(group, advantages, local=False, why=why)


def sample_of(group: Group, advantages: Advantages, *, local: bool, why: str = "") -> Record:
    """A scored group as it is written. `why`: why it was not trained on; "" if it was."""
    rows = paired(group.samples, advantages(group.rewards))[:COMPLETIONS]
    return {
        "author": group.author,
        "local": local,
        "trained": not why,
        "why": why,
        "task": f"{group.question.dataset}/{group.question.config_id}",
        "prompt": _cut(group.prompt, PROMPT_CHARS),
        "left_out": max(0, len(group.samples) - COMPLETIONS),
        "completions": [_completion(sample, advantage) for sample, advantage in rows],
    }


def _completion(sample: Sample, advantage: float) -> Record:
    written: dict[str, Any] = {
        "text": _cut(sample.episode.text, COMPLETION_CHARS),
        "reward": sample.reward,
        "advantage": round(advantage, 4),
        "ended": sample.episode.ended,
    }
    if not sample.episode.single:
        written["turns"] = conversation(sample)
    return written


def conversation(sample: Sample) -> list[dict[str, Any]]:
    """An episode of several turns as messages in order: what is said, and whether the policy says
    it.
    """
    turns = sample.episode.turns
    messages: list[tuple[bool, str]] = []
    for turn, replies in paired(turns, sample.observations or [()] * len(turns)):
        if turn.text:
            messages.append((True, turn.text))
        messages += [(True, f"{call.name} {call.arguments}") for call in turn.calls]
        messages += [(False, text) for text in replies]
    most = COMPLETION_CHARS // max(1, len(messages))
    shown = messages[:MESSAGES]
    return [{"own": own, "text": _cut(text, most)} for own, text in shown]


class SampleRing:
    """Appends to `rollouts.jsonl`; when that is half the bound, it becomes the older half."""

    def __init__(
        self,
        folder: Path,
        most_bytes: int,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        """`clock` decides when a sample is due; `now` is the time of day that is written."""
        self._path, self._older = folder / FILE, folder / OLDER
        self._half = most_bytes // 2
        self._clock, self._now = clock, now
        self._since = clock() - 1.0  # so the first round has a sample due
        self._turn = 0

    def due(self) -> int:
        """How many samples may be taken now: whole seconds since the last ones, at most
        `MOST_AT_ONCE`.
        """
        return min(int(self._clock() - self._since), MOST_AT_ONCE)

    def take(self, number: int, samples: Sequence[Record]) -> None:
        """Write as many samples of a round as are due, from each kind in turn. Raises OSError where
        a disk is full.
        """
        due = self.due()
        if not due or not samples:
            return
        self._since = self._clock()
        for sample in self._chosen(samples, due):
            record = {"time": round(self._now(), 3), "round": number, **sample}
            self._write(json.dumps(record, ensure_ascii=True).encode() + b"\n")

    def _chosen(self, samples: Sequence[Record], due: int) -> Iterator[Record]:
        """Local, trained external and left-out external samples in turn. A counter picks one of
        each kind, since random numbers belong to learning.
        """
        local: list[Record] = []
        trained: list[Record] = []
        left_out: list[Record] = []
        for sample in samples:
            if sample["local"]:
                local.append(sample)
            elif sample["trained"]:
                trained.append(sample)
            else:
                left_out.append(sample)
        kinds = [local, trained, left_out]
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


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text) - limit} more characters)"
