"""Rank 0 of a node of several ranks: it is the node, and tells the others to generate and to update with it.

It alone has home, identity, network, environment and terminal. following.py is the other side.
"""

import os
import signal
from dataclasses import dataclass
from pathlib import Path

from swarm_node.common.errors import UserError
from swarm_node.extensions.gpus.joined import LearningRanks
from swarm_node.extensions.gpus.ranks import JoinedRanks, digest, join, when_gone
from swarm_node.extensions.gpus.settings import GpusConfig
from swarm_node.policy.policy import Policy
from swarm_node.settings import LearningConfig, NodeConfig, section_of


@dataclass(frozen=True, slots=True)
class Begin:
    """What a rank needs to become what rank 0 is."""

    config: LearningConfig  # fitted to memory
    resume: Path | None  # checkpoint
    tried: Path | None
    leader: int  # process id of rank 0
    checkpointing: bool  # blocks of the model are computed again on the way back
    concurrent_tokens: int  # decoded at the same time, 0 for all of a round


@dataclass(frozen=True)
class LeadingRanks(LearningRanks):
    """At rank 0: the others wait in `told` for what it tells."""

    def begin(self, config: LearningConfig, policy: Policy, resume: Path | None) -> None:
        """See Ranks."""
        memory = policy.checkpointing, policy.concurrent_tokens
        self.tell("begin", Begin(config, resume, policy.tried.path, os.getpid(), *memory))
        compare(self, policy)

    def tell(self, call: str, *arguments: object) -> None:
        """Both sides pickle: they are one program on one machine."""
        self.of_rank(0, (call, *arguments))


def joined(config: NodeConfig) -> LeadingRanks:
    """The ranks that this process leads, when all have come. UserError for what a node of several cannot do."""
    if config.asynchronous.enabled:
        raise UserError("asynchronous.enabled is for a node of one process: turn it off under torchrun")
    if config.model.device.startswith("cuda:"):
        raise UserError("each rank takes the GPU of its number: leave model.device at auto under torchrun")
    when_gone(os.getppid(), lambda: os.kill(os.getpid(), signal.SIGTERM))  # torchrun was killed: nobody would tell us
    return join(LeadingRanks, section_of(config, GpusConfig).shard_optimizer)


def compare(ranks: JoinedRanks, policy: Policy) -> None:
    """At every rank. Ranks that differ would train apart, and nothing else would show it."""
    found = ranks.gather(digest([p for p in policy.model.parameters() if p.requires_grad]))
    if any(each != found[0] for each in found):
        raise UserError("the ranks of this node loaded different weights: do all read the same files?")
