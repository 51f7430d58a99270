"""The defence: decides which external completions are trained on, since right completions may be
poisoned.

A hostile group has right completions with a payload and wrong ones without it, so its advantages
teach the payload. Neither a single completion nor a reward shows this. Each layer takes one means
from the attacker: the contrast (rescue), length, a string that all completions share (ngrams).

The defence does not test what is right (scoring does), nor who may publish (admission and
reputation do).
"""

import re
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from random import Random
from statistics import fmean
from typing import Protocol

from swarm_node.rollouts.groups import Refused, ScoredGroup

TYPICAL = 0.95  # quantile of the local lengths that counts as long
TIMES = 2.0  # an external completion may be so many times as long as a long local one
# Characters that an external completion may always be longer: twice a short length is still short
ROOM = 16
ADDED = 2  # external completions that join local ones of their prompt
LONGEST = 4  # characters, at most, of the strings that the alarm looks for
READ = 1024  # characters read at either end of a text: peers choose how long it is
HELD_LOCAL, HELD_EXTERNAL = 256, 64  # newest texts remembered
# Local completions remembered of each round: few, so that the memory spans many rounds and an
LOCAL_A_ROUND = 8
# infected node is still compared with completions from before
AT_LEAST = 16  # external completions before any string is suspect
SPREAD = 0.5  # share of the data sets met in which a suspect string must be

_DIGITS = re.compile(r"\d")


class Layer(Protocol):
    """One layer of the defence. A class of your own inherits from this one; it is made without
    arguments.
    """

    reason: str = ""  # of a refusal: short and stable, a key for counting
    compares: bool = False  # whether `mix` reads local completions, which the node then generates

    def keep(
        self, local: Sequence[ScoredGroup], groups: Sequence[ScoredGroup], rng: Random
    ) -> list[list[int]]:
        """Positions of the completions that may be trained on, for each external group: all, unless
        a layer says otherwise. `local`: all groups that this node generated this round, answers to
        peers' questions included.
        """
        return [list(range(len(group.rewards))) for group in groups]

    def mix(self, local: ScoredGroup, external: ScoredGroup, rng: Random) -> ScoredGroup:
        """The group to train on in place of a selected one, where a layer `compares`. `local`:
        completions of the same prompt by this node.
        """
        return external

    def snapshot(self) -> Mapping[str, list[str]]:
        """What must survive a restart, as plain data for a checkpoint."""
        return {}

    def restore(self, snapshot: Mapping[str, list[str]]) -> None:
        """The inverse of `snapshot`. The snapshot also holds what other layers remembered."""


class LengthLayer(Layer):
    """Drops completions much longer than local ones."""

    reason = "longer than local"

    def keep(
        self, local: Sequence[ScoredGroup], groups: Sequence[ScoredGroup], rng: Random
    ) -> list[list[int]]:
        limit = longest(local)
        return [_passing(group, lambda text: len(text) <= limit) for group in groups]


class NgramsLayer(Layer):
    """Drops completions with strings that many better external completions share and local ones
    lack.
    """

    reason = "enriched text"

    def __init__(self) -> None:
        self._alarm = EnrichmentAlarm()

    def keep(
        self, local: Sequence[ScoredGroup], groups: Sequence[ScoredGroup], rng: Random
    ) -> list[list[int]]:
        local_texts = _whole(local)
        external = [
            (group.question.dataset, rng.choice(_whole([only(group, better(group))])))
            for group in groups
        ]
        self._alarm.note(rng.sample(local_texts, min(LOCAL_A_ROUND, len(local_texts))), external)
        alarming = self._alarm.strings()
        return [
            _passing(group, lambda text: alarming.isdisjoint(strings_of(text))) for group in groups
        ]

    def snapshot(self) -> Mapping[str, list[str]]:
        return self._alarm.snapshot()

    def restore(self, snapshot: Mapping[str, list[str]]) -> None:
        if snapshot:  # checkpoints of versions without a defence have none
            self._alarm.restore(snapshot)


class RescueLayer(Layer):
    """Adds external completions to local ones of the same prompt, which they are compared with."""

    compares = True

    def mix(self, local: ScoredGroup, external: ScoredGroup, rng: Random) -> ScoredGroup:
        return mixed(local, external, rng)


# By the names that `defence.layers` has for them
LAYERS: Mapping[str, Callable[[], Layer]] = {
    "length": LengthLayer,
    "ngrams": NgramsLayer,
    "rescue": RescueLayer,
}


class LayeredDefence:
    """Decides which completions of external groups are trained on: its layers in turn."""

    def __init__(self, layers: Sequence[Layer]) -> None:
        self._layers = layers

    def screen(
        self, local: Sequence[ScoredGroup], external: Sequence[ScoredGroup], rng: Random
    ) -> tuple[list[ScoredGroup], list[Refused]]:
        """Of external groups just scored, the informative ones without suspect completions, and
        those refused whole. `local`: all groups that this node generated this round, answers to
        peers' questions included.
        """
        groups, refused = [group for group in external if group.informative], list[Refused]()
        for layer in self._layers:
            rests = [
                only(group, chosen)
                for group, chosen in zip(groups, layer.keep(local, groups, rng), strict=True)
            ]
            refused += [
                Refused(rest.author, layer.reason, rest.question)
                for rest in rests
                if not rest.informative
            ]
            groups = [rest for rest in rests if rest.informative]
        return groups, refused

    @property
    def compares(self) -> bool:
        """Whether selected groups are compared with local completions of the same prompts."""
        return any(layer.compares for layer in self._layers)

    def mix(self, local: ScoredGroup, external: ScoredGroup, rng: Random) -> ScoredGroup:
        """The group to train on in place of a selected one. `local`: completions of the same prompt
        by this node.
        """
        for layer in self._layers:
            external = layer.mix(local, external, rng)
        return external

    def snapshot(self) -> Mapping[str, list[str]]:
        """What must survive a restart, as plain data for a checkpoint."""
        return {key: texts for layer in self._layers for key, texts in layer.snapshot().items()}

    def restore(self, snapshot: Mapping[str, list[str]]) -> None:
        for layer in self._layers:
            layer.restore(snapshot)


def only(group: ScoredGroup, chosen: Sequence[int]) -> ScoredGroup:
    """The group with these completions."""
    completions = tuple(group.group.episodes[i] for i in chosen)
    return replace(
        group,
        group=group.group.model_copy(update={"episodes": completions}),
        rewards=tuple(group.rewards[i] for i in chosen),
        tokens=None if group.tokens is None else tuple(group.tokens[i] for i in chosen),
        observations=tuple(group.observations[i] for i in chosen) if group.observations else (),
    )


def better(group: ScoredGroup) -> list[int]:
    """Positions of completions above the mean of their group, which training would reinforce."""
    mean = fmean(group.rewards)
    return [i for i, reward in enumerate(group.rewards) if reward > mean]


def longest(local: Sequence[ScoredGroup]) -> float:
    """`TIMES` the length of a long local completion of this round, in characters; at least `ROOM`
    more.
    """
    lengths = sorted(len(text) for group in local for turns in _turns(group) for text in turns)
    if not lengths:
        return float("inf")
    long = lengths[int(TYPICAL * (len(lengths) - 1))]
    return max(TIMES * long, long + ROOM)


def mixed(local: ScoredGroup, external: ScoredGroup, rng: Random) -> ScoredGroup:
    """A local group of a prompt with up to `ADDED` distinct external completions that are better
    than its mean.

    Advantages are computed in this group. So the peer supplies right completions, but not what they
    are compared with. The better this node does, the less they count; where all its answers are
    right, none is added. The group carries the peer's name, since the question is the peer's.
    """
    mean = fmean(local.rewards)
    found = {
        c.turns: i for i, c in enumerate(external.group.episodes) if external.rewards[i] > mean
    }
    added = only(external, rng.sample(sorted(found.values()), min(ADDED, len(found))))
    completions = local.group.episodes + added.group.episodes
    return ScoredGroup(
        group=external.group.model_copy(update={"episodes": completions}),
        prompt=external.prompt,
        rewards=local.rewards + added.rewards,
        tokens=(*(local.tokens or (None,) * len(local.rewards)), *(None,) * len(added.rewards)),
        prompt_ids=local.prompt_ids,
        observations=local.observations + added.observations,
    )


def _whole(groups: Sequence[ScoredGroup]) -> list[str]:
    """All turns of each completion as one text: a string of one turn in many would be rare among
    texts of turns.
    """
    return ["".join(turns) for group in groups for turns in _turns(group)]


def _turns(group: ScoredGroup) -> list[list[str]]:
    """For each completion and turn what its author writes freely: the text, and the names and
    arguments of calls.
    """
    return [
        [
            turn.text + "".join(call.name + call.arguments for call in turn.calls)
            for turn in episode.turns
        ]
        for episode in group.group.episodes
    ]


def _passing(group: ScoredGroup, passes: Callable[[str], bool]) -> list[int]:
    """Positions of the completions whose turns all pass."""
    return [i for i, turns in enumerate(_turns(group)) if all(map(passes, turns))]


def strings_of(text: str) -> frozenset[str]:
    """All strings of 1 to 4 characters in `text`, with every digit as 0. Of a long text only its
    ends are read.
    """
    parts = [text] if len(text) <= 2 * READ else [text[:READ], text[-READ:]]
    folded = [_DIGITS.sub("0", part) for part in parts]
    return frozenset(
        t[i : i + n] for t in folded for n in range(1, LONGEST + 1) for i in range(len(t) + 1 - n)
    )


class _Window:
    """The newest (topic, text) pairs, and the number of them that hold each string."""

    def __init__(self, size: int) -> None:
        self.entries: deque[tuple[str, str]] = deque()
        self._size = size
        self._counts: Counter[str] = Counter()
        self._topics: dict[str, Counter[str]] = {}

    def add(self, topic: str, text: str) -> None:
        self.entries.append((topic, text))
        self._count(topic, text, 1)
        if len(self.entries) > self._size:
            self._count(*self.entries.popleft(), -1)

    def _count(self, topic: str, text: str, step: int) -> None:
        for counts in (self._counts, self._topics.setdefault(topic, Counter())):
            for string in strings_of(text):
                counts[string] += step
                if not counts[string]:
                    del counts[string]

    def share(self, string: str) -> float:
        return self._counts[string] / len(self.entries)

    def spread(self, string: str) -> float:
        """Share of the topics in which the string was met."""
        topics = [counts for counts in self._topics.values() if counts]
        return sum(string in counts for counts in topics) / len(topics)

    def in_at_least(self, share: float) -> list[str]:
        return [
            string for string, count in self._counts.items() if count >= share * len(self.entries)
        ]


class EnrichmentAlarm:
    """Finds strings that better external completions have in common and local ones do not;
    remembers texts over rounds.

    Right answers differ from question to question; a payload is the same everywhere. So the alarm
    looks for strings of up to four characters that are in many of the better external completions,
    over many data sets, and in few local ones. All digits count as one sign, since answers differ
    in them. One data set alone proves nothing: its answers may all have a minus sign. The alarm
    cannot tell a payload from a useful habit (a tag, a turn of phrase). It misses payloads that are
    rarer than its threshold, or that are put on completions of one data set only.
    """

    def __init__(self, share: float = 0.15, factor: float = 4.0) -> None:
        """A string is alarming if it is in at least `share` of the external texts, and in `factor`
        times the share of local ones.
        """
        self._share, self._factor = share, factor
        self._local, self._external = _Window(HELD_LOCAL), _Window(HELD_EXTERNAL)

    def note(self, local: Iterable[str], external: Iterable[tuple[str, str]]) -> None:
        """Remember local texts, and (data set, text) of external ones."""
        for text in local:
            self._local.add("", text)
        for topic, text in external:
            self._external.add(topic, text)

    def strings(self) -> frozenset[str]:
        """The strings that are alarming now."""
        local, external = self._local, self._external
        if len(external.entries) < AT_LEAST or not local.entries:
            return frozenset()
        return frozenset(
            string
            for string in external.in_at_least(self._share)
            if external.share(string) >= self._factor * local.share(string)
            and external.spread(string) >= SPREAD
        )

    def snapshot(self) -> dict[str, list[str]]:
        windows = {"local": self._local, "external": self._external}
        return {
            name: [f"{topic} {text}" for topic, text in window.entries]
            for name, window in windows.items()
        }

    def restore(self, snapshot: Mapping[str, list[str]]) -> None:
        self._local, self._external = _Window(HELD_LOCAL), _Window(HELD_EXTERNAL)
        for name, window in (("local", self._local), ("external", self._external)):
            for entry in snapshot[name]:
                topic, text = entry.split(" ", 1)
                window.add(topic, text)
