"""The defence: decides which external completions are trained on, since right completions may be
poisoned.

A hostile group has right completions with a payload and wrong ones without it, so its advantages
teach the payload. Neither a single completion nor a reward shows this. Each layer takes one means
from the attacker: the contrast (rescue), length, a string that all completions share (ngrams).

The defence does not test what is right (scoring does), nor who may publish (admission and
reputation do).

A layer is one class: a new one changes no other, and gets its row in `LAYERS` here and in
settings/training.py. What a layer keeps between rounds is in every checkpoint (`snapshot`).
"""

import re
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from random import Random
from statistics import fmean
from typing import Protocol

from protocol.messages import Turn
from swarm_node.common.batched import paired
from swarm_node.rollouts.groups import Group, Refused, Sample

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

# What a layer keeps of a group: samples, or their positions
Kept = Sequence[Sample] | Sequence[int]


class Layer(Protocol):
    """One layer of the defence. A class of your own inherits from this one; it is made without
    arguments.
    """

    reason: str = ""  # of a refusal: short and stable, a key for counting
    compares: bool = False  # whether `mix` reads local completions, which the node then generates
    # Completions of an external group, at most, that `mix` leaves in it; None: all of them
    adds: int | None = None

    def keep(self, local: Sequence[Group], groups: Sequence[Group], rng: Random) -> Sequence[Kept]:
        """The samples that may be trained on, for each external group: all, unless a layer says
        otherwise. A layer may also give their positions in the group. `local`: all groups that this
        node generated this round, answers to peers' questions included.
        """
        return [group.samples for group in groups]

    def mix(self, local: Group, external: Group, rng: Random) -> Group:
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
        self, local: Sequence[Group], groups: Sequence[Group], rng: Random
    ) -> list[list[Sample]]:
        limit = longest(local)
        return [passing(group, lambda text: len(text) <= limit) for group in groups]


class NgramsLayer(Layer):
    """Drops completions with strings that many better external completions share and local ones
    lack.
    """

    reason = "enriched text"

    def __init__(self) -> None:
        self._alarm = EnrichmentAlarm()

    def keep(
        self, local: Sequence[Group], groups: Sequence[Group], rng: Random
    ) -> list[list[Sample]]:
        local_texts = [_whole(sample) for group in local for sample in group.samples]
        # One better sample of each group
        external = [
            (group.question.dataset, _whole(rng.choice(better(group.samples)))) for group in groups
        ]
        self._alarm.note(rng.sample(local_texts, min(LOCAL_A_ROUND, len(local_texts))), external)
        alarming = self._alarm.strings()
        return [
            passing(group, lambda text: alarming.isdisjoint(strings_of(text))) for group in groups
        ]

    def snapshot(self) -> Mapping[str, list[str]]:
        return self._alarm.snapshot()

    def restore(self, snapshot: Mapping[str, list[str]]) -> None:
        if snapshot:  # checkpoints of versions without a defence have none
            self._alarm.restore(snapshot)


class RescueLayer(Layer):
    """Adds external completions to local ones of the same prompt, which they are compared with."""

    compares, adds = True, ADDED

    def mix(self, local: Group, external: Group, rng: Random) -> Group:
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
        self, local: Sequence[Group], external: Sequence[Group], rng: Random
    ) -> tuple[list[Group], list[Refused]]:
        """Screens external groups that were just scored. Returns the informative ones, without
        suspect completions, and the groups that are refused whole. `local`: all groups that this
        node generated in this round, with its answers to questions of peers.
        """
        groups, refused = [group for group in external if group.informative], list[Refused]()
        for layer in self._layers:
            kept = paired(groups, layer.keep(local, groups, rng))
            screened = [only(group, samples) for group, samples in kept]
            refused += [
                Refused(group.author, layer.reason, group.question)
                for group in screened
                if not group.informative
            ]
            groups = [group for group in screened if group.informative]
        return groups, refused

    @property
    def compares(self) -> bool:
        """Whether selected groups are compared with local completions of the same prompts."""
        return any(layer.compares for layer in self._layers)

    @property
    def adds(self) -> int | None:
        """How many completions of an external group are trained on at most; None: all of them."""
        return min((layer.adds for layer in self._layers if layer.adds is not None), default=None)

    def mix(self, local: Group, external: Group, rng: Random) -> Group:
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


def only(group: Group, kept: Kept) -> Group:
    """The group with these of its samples alone."""
    samples = (entry if isinstance(entry, Sample) else group.samples[entry] for entry in kept)
    return replace(group, samples=tuple(samples))


def better(samples: Sequence[Sample]) -> list[Sample]:
    """Samples above the mean of their group, which training would reinforce."""
    mean = fmean(sample.earned for sample in samples)
    return [sample for sample in samples if sample.earned > mean]


def passing(group: Group, passes: Callable[[str], bool]) -> list[Sample]:
    """The samples of which every turn passes."""
    return [sample for sample in group.samples if all(map(passes, sample.free_texts))]


def longest(local: Sequence[Group]) -> float:
    """`TIMES` the length of a long local completion of this round, in characters; at least `ROOM`
    more.
    """
    samples = [sample for group in local for sample in group.samples]
    lengths = sorted(len(text) for sample in samples for text in sample.free_texts)
    if not lengths:
        return float("inf")
    long = lengths[int(TYPICAL * (len(lengths) - 1))]
    return max(TIMES * long, long + ROOM)


def mixed(local: Group, external: Group, rng: Random) -> Group:
    """A local group of a prompt with up to `ADDED` distinct external completions that are better
    than its mean.

    Advantages are computed in this group. So the peer supplies right completions, but not what they
    are compared with. The better this node does, the less they count; where all its answers are
    right, none is added. The group carries the peer's name, since the question is the peer's.
    """
    mean = fmean(local.rewards)
    distinct: dict[tuple[Turn, ...], Sample] = {}
    for sample in reversed(external.samples):
        if sample.earned > mean:
            distinct.setdefault(sample.episode.turns, sample)
    candidates = list(reversed(distinct.values()))
    added = rng.sample(candidates, min(ADDED, len(candidates)))
    return replace(external, samples=(*local.samples, *added), prompt_ids=local.prompt_ids)


def _whole(sample: Sample) -> str:
    """All turns as one text: a string of one turn in many would be rare among texts of turns."""
    return "".join(sample.free_texts)


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
