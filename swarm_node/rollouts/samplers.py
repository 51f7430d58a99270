"""Which groups to train on: the samplers of the paper, and those of its ablations. Registered in pyproject.toml."""

from collections.abc import Sequence
from random import Random
from typing import Protocol

from swarm_node.rollouts.groups import ExternalGroup, Score, ScoredGroup, Selected


class Sampler(Protocol):
    """Which external groups to train on. A class of your own may inherit from this one, and need only `select`."""

    def wanted(self, external: int, others: Sequence[ScoredGroup]) -> int:
        """How many informative external groups to look for. `external`: as configured; `others`: as many local groups
        that were not chosen, selected by the same rule."""
        return external

    def select(self, count: int, candidates: Sequence[ExternalGroup], score: Score, rng: Random) -> Selected:
        """Up to `count` groups. Scoring costs time: ask for no more of it than needed."""
        ...


class UniformSampler(Sampler):
    """SAPO's external sampler: drop uninformative groups, then uniform.

    Scoring costs time, so groups are scored in random order until enough are informative. That gives the same
    distribution as scoring them all first.
    """

    def select(self, count: int, candidates: Sequence[ExternalGroup], score: Score, rng: Random) -> Selected:
        order = rng.sample(candidates, len(candidates))
        selected: list[ScoredGroup] = []
        spent: list[ExternalGroup] = []
        while order and len(selected) < count:
            asked, order = order[: count - len(selected)], order[count - len(selected) :]
            selected += [scored for scored in score(asked) if scored.informative]
            spent += asked
        return Selected(selected, spent)


class MatchedSampler(UniformSampler):
    """An ablation: as many informative groups as `local + external` local ones would have held, and no more, so that
    sharing gives no more of them than training alone."""

    def wanted(self, external: int, others: Sequence[ScoredGroup]) -> int:
        return sum(group.informative for group in others)


def choose_local(
    groups: Sequence[ScoredGroup], local: int, external: int, informative_only: bool, rng: Random
) -> tuple[list[ScoredGroup], list[ScoredGroup]]:
    """`local` of the groups, uniform over all, or over the informative ones; and `external` others, selected alike."""
    eligible = [group for group in groups if group.informative] if informative_only else list(groups)
    order = rng.sample(eligible, min(local + external, len(eligible)))
    return order[:local], order[local:]
