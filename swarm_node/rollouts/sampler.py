"""The sampler of the paper (arXiv 2509.08721), and the interface of all samplers."""

from abc import abstractmethod
from collections.abc import Sequence
from random import Random
from typing import Protocol

from swarm_node.rollouts.groups import Group


class Sampler(Protocol):
    """Decides which external groups to train on. A class of your own may inherit from this one, and
    need only `order`.

    A round scores candidates in that order, some at once, until enough are chosen.
    """

    # Whether local groups are drawn among the informative ones alone, not among all
    only_informative: bool = False

    def observe(self, local: Sequence[Group]) -> None:
        """Called once a round, before all else, with the groups that this node generated in it."""

    def split(self, local: int, external: int) -> tuple[int, int]:
        """How many local and external groups to train on: as configured, unless a sampler decides
        by what it saw.
        """
        return local, external

    @abstractmethod
    def order(self, candidates: Sequence[Group], rng: Random) -> list[Group]:
        """The candidates, which come in the order of arrival, in the order in which to score them.
        A candidate that is left out waits for the next round.
        """
        ...

    def at_once(self, missing: int) -> int:
        """How many candidates to score next if `missing` more groups are wanted. Scoring costs
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


def choose_local(
    groups: Sequence[Group], local: int, external: int, informative_only: bool, rng: Random
) -> tuple[list[Group], list[Group]]:
    """`local` of the groups, uniform over all or over the informative ones, and `external` more,
    chosen likewise.
    """
    eligible = (
        [group for group in groups if group.informative] if informative_only else list(groups)
    )
    order = rng.sample(eligible, min(local + external, len(eligible)))
    return order[:local], order[local:]
