"""The processes that learn together as one node: this one alone, or all that torchrun started.

`Ranks` is a process alone. What several do is registered by an extension under `swarm_node.ranks`: `lead` for rank 0,
which is the node, and `follow` for the others, which do as it says. They are loaded only where torchrun's environment
names more than one rank. Needs no torch.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from swarm_node.common import plugins
from swarm_node.common.loading import quickly
from swarm_node.settings import LearningConfig, NodeConfig

if TYPE_CHECKING:
    from torch import Tensor, nn

    from swarm_node.policy.policy import Policy

T = TypeVar("T")


class Ranks:
    """This process among those of its node. Alone, nothing is sent, and every share is the whole."""

    size: int = 1

    @property
    def state_shares(self) -> int:
        """How many ranks keep a share each of the optimiser's state; 1 where each keeps all of it."""
        return 1

    def begin(self, config: LearningConfig, policy: "Policy", resume: Path | None) -> None:
        """Rank 0, when it has loaded: the others load the same. UserError where they got other weights."""

    def tell(self, call: str, *arguments: object) -> None:
        """Rank 0, before it generates or updates: the others make the same call."""

    def share(self, count: int) -> range:
        """Which of `count` prompts, in their order, this rank generates for."""
        return range(count)

    def dealt(self, costs: Sequence[float]) -> list[int]:
        """Which rows of an update this rank computes, where all ranks are to have about the same cost."""
        return list(range(len(costs)))

    def gather(self, value: T) -> list[T]:
        """The value of every rank, at every rank."""
        return [value]

    def add_gradients(self, parameters: "Sequence[nn.Parameter]") -> None:
        """Every rank's gradient becomes the sum over ranks. None where no rank has one."""

    def kept(self, parameters: "Sequence[nn.Parameter]") -> "list[nn.Parameter]":
        """The weights that this rank steps: those whose state of the optimiser it keeps."""
        return list(parameters)

    def spread(self, parameters: "Sequence[nn.Parameter]") -> None:
        """After a step: every weight becomes what the rank that stepped it made of it."""

    def whole(self, state: "dict[str, Tensor]") -> "dict[str, Tensor]":
        """The optimiser's state of all ranks, from the part of each."""
        return state


ALONE = Ranks()


def count_ranks(environment: Mapping[str, str] = os.environ) -> int:
    """How many processes torchrun started as ranks of this node; 1 where it started none."""
    return int(environment.get("WORLD_SIZE", "1")) if "TORCHELASTIC_RUN_ID" in environment else 1


def is_follower(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether this process is a rank that does as rank 0 says."""
    return count_ranks(environment) > 1 and environment["RANK"] != "0"


def follow() -> None:
    """A rank other than 0, from its start until rank 0 ends. Never returns there, and at once anywhere else."""
    if is_follower():
        with quickly():
            follower = plugins.load("ranks", "follow")
        follower()


def lead(config: NodeConfig) -> Ranks:
    """The ranks that this process leads, when all have come. UserError for what a node of several cannot do."""
    if count_ranks() < 2:
        return ALONE
    ranks: Ranks = plugins.load("ranks", "lead")(config)
    return ranks
