"""Adaptive I/J: informative local groups first, external groups for the rest. Our own idea; it
follows no paper.
"""

from collections.abc import Sequence

from swarm_node.rollouts.groups import Group
from swarm_node.rollouts.sampler import UniformSampler


class AdaptiveSampler(UniformSampler):
    """Trains on I + J groups: first on informative local ones, then on external ones. No sender can
    change the split.
    """

    only_informative = True

    def __init__(self) -> None:
        self._informative = 0

    def observe(self, local: Sequence[Group]) -> None:
        self._informative = sum(group.informative for group in local)

    def split(self, local: int, external: int) -> tuple[int, int]:
        """Returns how many local and how many external groups a round trains on: as many local ones
        as are informative, and external ones for the rest. If the configured number of external
        groups is 0, none are external.
        """
        if not external:
            return local, external
        mine = min(self._informative, local + external)
        return mine, local + external - mine
