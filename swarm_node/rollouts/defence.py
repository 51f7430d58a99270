"""What of the groups heard from others is trained on: the answer to poison in text that is right.

A hostile group is right answers with a payload against wrong ones without: the advantage then teaches the payload. No
single text shows that, and no reward does. What helps is to leave the attacker neither the contrast (regroup), nor
repetition (duplicates), nor length, nor a string that all its texts share (ngrams). The last layer, tokens this policy
would hardly say, is the trainer's (`clip`).

What it is not: a test of whether an answer is right (judging), or of who may speak (admission, reputation).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from statistics import fmean
from typing import Protocol

from protocol.messages import PeerId
from swarm_node.rollouts.enrichment import OWN_A_ROUND, EnrichmentAlarm, strings_of
from swarm_node.rollouts.groups import ScoredGroup
from swarm_node.settings import DefenceConfig

TYPICAL = 0.95  # quantile of own lengths that stands for a long one
ROOM = 16  # characters that a text of others may always be longer: where answers are words, twice nothing is nothing
NEAR = 0.9  # share of strings in common from which two texts are near-duplicates

Attempt = Callable[[Sequence[ScoredGroup], int], Sequence[ScoredGroup]]
"""Own completions, so many each, to the questions of these groups, judged here; without those that could not be."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A group of a peer that had signal, and of which nothing is trained on."""

    author: PeerId
    reason: str


@dataclass(frozen=True, slots=True)
class Screened:
    """What the defence leaves of the groups drawn, and what it refused."""

    groups: list[ScoredGroup]  # with what was kept of them
    refused: list[Refused]


class Layer(Protocol):
    """One layer of the defence. A class of your own may inherit from this one; it is made with the `DefenceConfig`."""

    reason: str  # of a refusal: short and stable, a key for counting

    def keep(self, own: Sequence[ScoredGroup], groups: Sequence[ScoredGroup], rng: Random) -> list[list[int]]:
        """Positions of the completions that may be trained on, for each of the external groups. `own`: all this node
        generated this round."""
        ...

    def snapshot(self) -> Mapping[str, list[str]]:
        """What must survive a restart, as plain data for a checkpoint."""
        return {}

    def restore(self, snapshot: Mapping[str, list[str]]) -> None:
        """The inverse of `snapshot`, which other layers may have added to."""


class LengthLayer(Layer):
    """Drops completions much longer than own ones."""

    reason = "longer than own"

    def __init__(self, config: DefenceConfig) -> None:
        self._factor = config.length_factor

    def keep(self, own: Sequence[ScoredGroup], groups: Sequence[ScoredGroup], rng: Random) -> list[list[int]]:
        limit = longest(own, self._factor)
        return [within(group, limit) for group in groups]


class DuplicatesLayer(Layer):
    """Keeps one of near-identical completions."""

    reason = "near-duplicates"

    def __init__(self, config: DefenceConfig) -> None:
        pass

    def keep(self, own: Sequence[ScoredGroup], groups: Sequence[ScoredGroup], rng: Random) -> list[list[int]]:
        return [distinct(group) for group in groups]


class NgramsLayer(Layer):
    """Drops completions with strings that others' better completions share and own ones lack."""

    reason = "enriched text"

    def __init__(self, config: DefenceConfig) -> None:
        self._alarm = EnrichmentAlarm(config.enriched_share, config.enrichment)

    def keep(self, own: Sequence[ScoredGroup], groups: Sequence[ScoredGroup], rng: Random) -> list[list[int]]:
        written = _texts(own)
        said = [(group.question.dataset, rng.choice(_texts([only(group, better(group))]))) for group in groups]
        self._alarm.note(rng.sample(written, min(OWN_A_ROUND, len(written))), said)
        alarming = self._alarm.strings()
        return [without(group, alarming) for group in groups]

    def snapshot(self) -> Mapping[str, list[str]]:
        return self._alarm.snapshot()

    def restore(self, snapshot: Mapping[str, list[str]]) -> None:
        if snapshot:  # checkpoints before there was a defence have none
            self._alarm.restore(snapshot)


class LayeredDefence:
    """Implements interfaces.Defence: its layers one after the other, then own attempts where the configuration asks for
    them."""

    def __init__(self, config: DefenceConfig, layers: Sequence[Layer]) -> None:
        self._config, self._layers = config, layers

    def screen(self, own: Sequence[ScoredGroup], heard: Sequence[ScoredGroup], rng: Random) -> Screened:
        """See interfaces.Defence."""
        groups, refused = [group for group in heard if group.has_signal], list[Refused]()
        for layer in self._layers:
            rests = [only(group, chosen) for group, chosen in zip(groups, layer.keep(own, groups, rng), strict=True)]
            refused += [Refused(rest.author, layer.reason) for rest in rests if not rest.has_signal]
            groups = [rest for rest in rests if rest.has_signal]
        return Screened(groups, refused)

    def regroup(self, heard: Sequence[ScoredGroup], attempt: Attempt, rng: Random) -> list[ScoredGroup]:
        """See interfaces.Defence."""
        if not heard or not {"regroup", "rescue"} & set(self._config.use):
            return list(heard)
        own = {group.question: group for group in attempt(heard, self._config.own_samples)}
        bar = max if "rescue" in self._config.use else fmean
        return [
            mixed(own[group.question], group, bar(own[group.question].rewards), self._config.foreign_right, rng)
            for group in heard
            if group.question in own
        ]

    def snapshot(self) -> Mapping[str, list[str]]:
        """What must survive a restart, as plain data for a checkpoint."""
        return {key: texts for layer in self._layers for key, texts in layer.snapshot().items()}

    def restore(self, snapshot: Mapping[str, list[str]]) -> None:
        """The inverse of `snapshot`."""
        for layer in self._layers:
            layer.restore(snapshot)


def only(group: ScoredGroup, chosen: Sequence[int]) -> ScoredGroup:
    """The group with these completions."""
    completions = tuple(group.group.completions[i] for i in chosen)
    return replace(
        group,
        group=group.group.model_copy(update={"completions": completions}),
        rewards=tuple(group.rewards[i] for i in chosen),
        tokens=None if group.tokens is None else tuple(group.tokens[i] for i in chosen),
    )


def better(group: ScoredGroup) -> list[int]:
    """Completions above the mean of their group: those that training would reinforce."""
    mean = fmean(group.rewards)
    return [i for i, reward in enumerate(group.rewards) if reward > mean]


def longest(own: Sequence[ScoredGroup], factor: float) -> float:
    """`factor` times a long own completion of this round, in characters, or a little more where that is too little."""
    lengths = sorted(map(len, _texts(own)))
    if not lengths:
        return float("inf")
    long = lengths[int(TYPICAL * (len(lengths) - 1))]
    return max(factor * long, long + ROOM)


def within(group: ScoredGroup, limit: float) -> list[int]:
    """Places of the completions that have at most so many characters."""
    return [i for i, completion in enumerate(group.group.completions) if len(completion.text) <= limit]


def distinct(group: ScoredGroup) -> list[int]:
    """The first of every set of near-duplicates: texts of one reward that share most of their strings."""
    chosen: list[int] = []
    strings = [strings_of(" ".join(completion.text.lower().split())) for completion in group.group.completions]
    digits = ["".join(filter(str.isdigit, completion.text)) for completion in group.group.completions]
    for i, reward in enumerate(group.rewards):
        twins = (
            group.rewards[k] == reward and digits[k] == digits[i] and _similar(strings[k], strings[i]) for k in chosen
        )
        if not any(twins):
            chosen.append(i)
    return chosen


def without(group: ScoredGroup, alarming: frozenset[str]) -> list[int]:
    """Places of the completions that hold none of these strings."""
    return [i for i, c in enumerate(group.group.completions) if alarming.isdisjoint(strings_of(c.text))]


def mixed(own: ScoredGroup, heard: ScoredGroup, bar: float, most: int, rng: Random) -> ScoredGroup:
    """Own attempts at a question and, beside them, up to `most` distinct texts of the peer with a reward above `bar`.

    The advantage is that of this group, so the peer supplies what is right and never what it is set off against. Named
    after the peer, whose question it is.
    """
    found = {c.text: i for i, c in enumerate(heard.group.completions) if heard.rewards[i] > bar}
    added = only(heard, rng.sample(sorted(found.values()), min(most, len(found))))
    completions = own.group.completions + added.group.completions
    return ScoredGroup(
        group=heard.group.model_copy(update={"completions": completions}),
        prompt=heard.prompt,
        rewards=own.rewards + added.rewards,
        tokens=own.own_tokens + added.own_tokens,
    )


def _similar(one: frozenset[str], other: frozenset[str]) -> bool:
    union = len(one | other)
    return union == 0 or len(one & other) / union >= NEAR


def _texts(groups: Sequence[ScoredGroup]) -> list[str]:
    return [completion.text for group in groups for completion in group.group.completions]
