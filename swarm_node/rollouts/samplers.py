"""Which groups to train on: the samplers of the paper, and those of its ablations. Registered in pyproject.toml."""

from collections.abc import Sequence
from random import Random
from typing import Protocol

from swarm_node.rollouts.groups import Draw, ExternalGroup, Score, ScoredGroup


class Sampler(Protocol):
    """Which external groups to train on. A class of your own may inherit from this one, and need only `draw`."""

    def wanted(self, external: int, others: Sequence[ScoredGroup]) -> int:
        """How many informative external groups to look for. `external`: as configured; `others`: so many local groups
        that were not chosen, drawn by the same rule."""
        return external

    def draw(self, count: int, candidates: Sequence[ExternalGroup], score: Score, rng: Random) -> Draw:
        """Up to `count` groups. Scoring costs time: ask for no more of it than needed."""
        ...


class UniformSampler(Sampler):
    """SAPO's external sampler: drop groups without signal, then uniform.

    Scoring costs time, so groups are scored in random order until enough have signal, which gives the same
    distribution as scoring them all first.
    """

    def draw(self, count: int, candidates: Sequence[ExternalGroup], score: Score, rng: Random) -> Draw:
        order = rng.sample(candidates, len(candidates))
        drawn: list[ScoredGroup] = []
        spent: list[ExternalGroup] = []
        while order and len(drawn) < count:
            asked, order = order[: count - len(drawn)], order[count - len(drawn) :]
            drawn += [scored for scored in score(asked) if scored.has_signal]
            spent += asked
        return Draw(drawn, spent)


class MatchedSampler(UniformSampler):
    """An ablation: as many informative groups as `local + external` local ones would have held, and no more, so that
    sharing gives no more signal than training alone."""

    def wanted(self, external: int, others: Sequence[ScoredGroup]) -> int:
        return sum(group.has_signal for group in others)


def choose_local(
    groups: Sequence[ScoredGroup], local: int, external: int, informative_only: bool, rng: Random
) -> tuple[list[ScoredGroup], list[ScoredGroup]]:
    """`local` of the groups, uniform over all, or over those with signal; and `external` others, drawn alike."""
    eligible = [group for group in groups if group.has_signal] if informative_only else list(groups)
    order = rng.sample(eligible, min(local + external, len(eligible)))
    return order[:local], order[local:]
