"""The places of a round: which groups it has room for, its own and those of others.

A round has places for local groups and places for external ones, 8 and 4 in a node of `run`. A
local group whose completions are all wrong, or all right, has no advantages. It keeps its place and
teaches nothing there. Early in training that is most places, and the informative groups of others
wait beside them.

With `round.fill` an external group may take such a place:

    8 places of local groups      | informative | informative | all wrong | all wrong | ...
                                                                   |           |
    4 places of external groups   | external | ... | external |    v           v
                                                              external     external

So a node whose own groups teach nothing trains on up to `fill` external groups more, and one whose
own groups all teach trains on no more than before. Only this node's rewards decide it. A sender can
change neither the number of places nor how many of them are free.

A layer of the defence that compares needs a round for it: what a round chose is trained on in the
next one, in the places that were free in the first.

A place is also free where there is no local group for it: a sampler may draw local groups among the
informative ones alone. Pure: no torch, no clock.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from swarm_node.rollouts.groups import Group


@dataclass(frozen=True, slots=True)
class Places:
    """The places of one round.

    Attributes:
        local: the local groups to train on.
        spare: further local groups, for places of external groups that nobody takes.
        external: places of external groups, as configured or as the sampler divides the round.
        filled: places of local groups that external groups take, too.
    """

    local: list[Group]
    spare: list[Group] = field(default_factory=list)
    external: int = 0
    filled: int = 0

    @property
    def wanted(self) -> int:
        """How many external groups the round looks for."""
        return self.external + self.filled

    def with_spare(self, external: int) -> list[Group]:
        """The local groups to train on beside so many external ones: spare ones take the places of
        external groups that are missing. The place of a local group that no external one fills
        stays as it is.
        """
        missing = max(0, self.external - external)
        return self.local + self.spare[:missing]


def filled_places(places: int, local: Sequence[Group], most: int) -> int:
    """How many of the places of local groups external ones take.

    Args:
        places: places of local groups in this round.
        local: the local groups that have them.
        most: `round.fill`.
    """
    teaching = sum(group.informative for group in local)
    return min(most, max(0, places - teaching))
