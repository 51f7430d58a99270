"""The sampler of the paper (arXiv 2509.08721), and the interface of all samplers.

Plug-ins implement `Sampler`, too: it may get another method with a default, and none may be renamed
or take more arguments.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Protocol

from protocol.messages import PeerId, Round
from swarm_node.rollouts.groups import Group
from swarm_node.rollouts.inbox import PeerRecord


@dataclass(frozen=True, slots=True)
class Seen:
    """What a node has seen before it chooses external groups, for a sampler to go by.

    Attributes:
        round: the round that is under way, by this node's count. A group's own `round` is its
            author's count.
        local: the groups that this node generated in this round, with their rewards.
        peers: what became of each peer's groups on this node since it started: how many arrived,
            were informative, were chosen, and how well they scored. A peer of whom nothing arrived
            is missing.
    """

    round: Round
    local: Sequence[Group] = ()
    peers: Mapping[PeerId, PeerRecord] = field(default_factory=dict)


class Sampler(Protocol):
    """Decides which external groups to train on. A class of your own inherits from this one, and
    needs only `order`.

    A round calls `begin`, `split` and `order`, each once. Then it takes candidates in that order,
    some at a time, scores those that have no rewards yet, has the defence screen them, and stops
    when enough are chosen. One sampler serves all rounds of a run, so it may remember what it saw.
    """

    # Whether local groups are drawn among the informative ones alone, not among all
    only_informative: bool = False
    # Whether `order` reads the rewards of candidates. A node that scores ahead, as `run` does, has
    # them in any case. A simulation then scores all candidates before it asks for their order
    reads_rewards: bool = False

    def begin(self, seen: Seen) -> None:
        """Called once a round, before all else."""
        self.observe(seen.local)

    def observe(self, local: Sequence[Group]) -> None:
        """The groups that this node generated in the round: what version 0.2 called in place of
        `begin`.
        """

    def split(self, local: int, external: int) -> tuple[int, int]:
        """How many local and external groups to train on: as configured, unless a sampler decides
        by what it saw.
        """
        return local, external

    @abstractmethod
    def order(self, candidates: Sequence[Group], rng: Random) -> list[Group]:
        """The candidates, which come in the order of arrival, in the order in which to take them. A
        candidate that is left out waits for the next round.
        """
        ...

    # Seldom needed

    def at_once(self, missing: int) -> int:
        """How many candidates to take next if `missing` more groups are wanted. Scoring costs
        time.
        """
        return missing

    def choose(self, scored: Sequence[Group], count: int) -> list[Group]:
        """Up to `count` of the groups that were scored so far and that the defence left. An
        informative one that is not chosen in the end waits for the next round.
        """
        return [group for group in scored if group.informative][:count]


class UniformSampler(Sampler):
    """SAPO's external sampler: drops uninformative groups, then chooses uniformly.

    Groups are scored in random order until enough are informative. That gives the same distribution
    as scoring all of them first, and costs less.
    """

    def order(self, candidates: Sequence[Group], rng: Random) -> list[Group]:
        return rng.sample(candidates, len(candidates))


class InformativeSampler(UniformSampler):
    """Chooses uniformly among the informative groups, local ones too: the strongest lone learner is
    one that generates more groups than it trains on.
    """

    only_informative = True


class OlderSampler(Sampler):
    """A sampler that inherits from no class of ours, as version 0.2 allowed: it has the methods of
    that version, and not those that came later.
    """

    def __init__(self, sampler: Any) -> None:
        self._sampler = sampler
        self.only_informative = bool(getattr(sampler, "only_informative", False))

    def observe(self, local: Sequence[Group]) -> None:
        self._sampler.observe(local)

    def split(self, local: int, external: int) -> tuple[int, int]:
        split: tuple[int, int] = self._sampler.split(local, external)
        return split

    def order(self, candidates: Sequence[Group], rng: Random) -> list[Group]:
        return list(self._sampler.order(candidates, rng))

    def at_once(self, missing: int) -> int:
        return int(self._sampler.at_once(missing))

    def choose(self, scored: Sequence[Group], count: int) -> list[Group]:
        return list(self._sampler.choose(scored, count))


def as_sampler(sampler: Any) -> Sampler:
    """The sampler, with the methods that it lacks because it was written for version 0.2."""
    inherits = Sampler in type(sampler).__mro__
    return sampler if inherits or hasattr(sampler, "begin") else OlderSampler(sampler)


def choose_local(
    groups: Sequence[Group], local: int, external: int, informative_only: bool, rng: Random
) -> tuple[list[Group], list[Group]]:
    """`local` of the groups, uniform over all or over the informative ones, and `external` more,
    chosen likewise.
    """
    eligible = list(groups)
    if informative_only:
        eligible = [group for group in groups if group.informative]
    order = rng.sample(eligible, min(local + external, len(eligible)))
    return order[:local], order[local:]
