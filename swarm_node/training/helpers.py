"""What a trainer asks of other processes that differentiate a part of its groups.

The trainer hands the groups of a step out, differentiates its own part, waits for the others, and
adds their gradients to its own. Then it takes the step alone. Losses are weighted by the size of
the whole step, so that the sum of all parts is the gradient that one process would compute.
node/parallel.py implements this with a process for each further device.
"""

from dataclasses import dataclass
from typing import Protocol

from swarm_node.policy.batch import TokenGroup
from swarm_node.policy.policy import Policy
from swarm_node.training.objectives import StepSize, Totals


@dataclass(frozen=True, slots=True)
class OptimiserStep:
    """What every process has to know of an optimiser step, besides its groups."""

    size: StepSize  # of all parts together
    taken: int  # steps of this update before it
    packed: bool  # whether rows share a common beginning, where the model allows it


class Helpers(Protocol):
    """Processes that differentiate groups beside the trainer. The calls come in this order."""

    def hand_out(self, groups: list[TokenGroup], step: OptimiserStep) -> list[TokenGroup]:
        """Gives each helper its part of the groups. Returns the part of this process, which is all
        of them where there are no helpers now.
        """
        ...

    def gather(self) -> list[TokenGroup]:
        """Waits until all helpers have done their part. Returns the groups of those that failed."""
        ...

    def add(self, policy: Policy, totals: Totals) -> float:
        """Adds the gradients of all helpers to those of the policy, and what they counted to the
        totals. Returns their share of the loss.
        """
        ...
