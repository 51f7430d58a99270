"""Which groups to train on: the samplers of the paper, and those of its ablations."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from protocol.messages import RolloutGroup
from swarm_node.rollouts.groups import Draw, Judge, ScoredGroup


class UniformSampler:
    """SAPO's external sampler: drop groups without signal, then uniform.

    Judging costs time, so groups are judged in random order until enough have signal, which gives the same
    distribution as judging them all first.
    """

    def draw(self, count: int, candidates: Sequence[RolloutGroup], judge: Judge, rng: Random) -> Draw:
        order = rng.sample(candidates, len(candidates))
        drawn: list[ScoredGroup] = []
        spent: list[RolloutGroup] = []
        while order and len(drawn) < count:
            asked, order = order[: count - len(drawn)], order[count - len(drawn) :]
            drawn += [scored for scored in judge(asked) if scored.has_signal]
            spent += asked
        return Draw(drawn, spent)


@dataclass(frozen=True, slots=True)
class LocalChoice:
    """Own groups to train on, and how many informative external ones to look for."""

    groups: list[ScoredGroup]
    external: int


def choose_local(
    own: Sequence[ScoredGroup], local: int, external: int, *, informative_only: bool, match: bool, rng: Random
) -> LocalChoice:
    """`local` of the own groups: uniform over all, or over those with signal.

    With `match` the number of external groups is what makes the informative ones as many as `local + external` own
    groups, drawn by the same rule, would have held: the ablation that gives sharing no more signal than training alone.
    """
    eligible = [group for group in own if group.has_signal] if informative_only else list(own)
    order = rng.sample(eligible, min(local + external, len(eligible)))
    chosen = order[:local]
    wanted = sum(group.has_signal for group in order[local:]) if match else external
    return LocalChoice(chosen, wanted)
