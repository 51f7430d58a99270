"""The processes that learn together as one node, where torchrun started several.

What they do is registered by an extension under `swarm_node.ranks`: `lead` for rank 0, which is the node, and `follow`
for the others, which do as it says. They are loaded only where torchrun's environment names more than one rank. Needs
no torch.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from swarm_node.common import plugins
from swarm_node.common.loading import quickly
from swarm_node.rollouts.interfaces import Generator
from swarm_node.settings import LearningConfig, NodeConfig

if TYPE_CHECKING:
    from swarm_node.policy.policy import Policy
    from swarm_node.training.trainer import GrpoTrainer


class Ranks(Protocol):
    """What rank 0 generates and trains with, so that the others do their share."""

    def generator(self, *arguments: Any, **options: Any) -> Generator:
        """Takes what BatchGenerator takes."""
        ...

    def trainer(self, *arguments: Any, **options: Any) -> "GrpoTrainer":
        """Takes what GrpoTrainer takes."""
        ...

    @property
    def state_shares(self) -> int:
        """How many ranks keep a share each of the optimiser's state; 1 where each keeps all of it."""
        ...

    def begin(self, config: LearningConfig, policy: "Policy", resume: Path | None) -> None:
        """When rank 0 has loaded: the others load the same. UserError where they got other weights."""
        ...


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


def lead(config: NodeConfig) -> Ranks | None:
    """The ranks that this process leads, when all have come; None where it is alone. UserError for what a node of
    several cannot do."""
    if count_ranks() < 2:
        return None
    ranks: Ranks = plugins.load("ranks", "lead")(config)
    return ranks
