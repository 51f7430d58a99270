"""Rank 0 of a node of several ranks: it is the node, and tells the others to generate and to update with it.

It alone has home, identity, network, environment and terminal. following.py is the other side.
"""

import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from swarm_node.common.errors import UserError
from swarm_node.extensions.gpus.ranks import ALONE, Ranks, digest, join, when_gone
from swarm_node.extensions.gpus.torchrun import is_rank
from swarm_node.generation.generator import BatchGenerator
from swarm_node.policy.policy import Policy
from swarm_node.rollouts.groups import GeneratedGroup, ScoredGroup, Skipped
from swarm_node.rollouts.interfaces import Generator
from swarm_node.rollouts.reports import StepReport
from swarm_node.settings import LearningConfig, NodeConfig
from swarm_node.training.trainer import GrpoTrainer


@dataclass(frozen=True, slots=True)
class Begin:
    """What a rank needs to become what rank 0 is."""

    config: LearningConfig  # fitted to memory
    resume: Path | None  # checkpoint
    tried: Path | None
    leader: int  # process id of rank 0


@dataclass(frozen=True, slots=True)
class Generate:
    """The arguments of `Generator.generate`."""

    prompts: list[str]
    group_size: int
    stream: str


@dataclass(frozen=True, slots=True)
class Update:
    """The argument of `Trainer.update`."""

    groups: list[ScoredGroup]


@dataclass(frozen=True, slots=True)
class HandOver:
    """Rank 0 writes a checkpoint: it wants the state of the optimiser that others keep."""


class LeadingGenerator(Generator):
    """Of rank 0: the others generate their share of the prompts."""

    def __init__(self, own: BatchGenerator, ranks: Ranks) -> None:
        self._own, self._ranks = own, ranks

    @property
    def decoder_name(self) -> str:
        return f"{self._own.decoder_name}, {self._ranks.size} ranks"

    def generate(self, prompts: Sequence[str], group_size: int, stream: str) -> list[GeneratedGroup | Skipped]:
        """See interfaces.Generator."""
        self._ranks.tell(Generate(list(prompts), group_size, stream))
        return self._own.generate(prompts, group_size, stream)

    def close(self) -> None:
        """See interfaces.Generator."""
        self._own.close()


class LeadingTrainer(GrpoTrainer):
    """Of rank 0: the others make the same update, each from its share of the rows."""

    def update(self, groups: Sequence[ScoredGroup]) -> StepReport:
        """See interfaces.Trainer."""
        self._ranks.tell(Update(list(groups)))
        return super().update(groups)

    def optimizer_tensors(self) -> dict[str, Tensor]:
        """See GrpoTrainer."""
        if self.shards.sharded:
            self._ranks.tell(HandOver())
        return super().optimizer_tensors()


def joined(config: NodeConfig) -> Ranks:
    """The ranks that this process leads, when all have come. UserError for what a node of several cannot do."""
    if not is_rank():
        return ALONE
    if config.asynchronous.enabled:
        raise UserError("asynchronous.enabled is for a node of one process: turn it off under torchrun")
    if config.model.device.startswith("cuda:"):
        raise UserError("each rank takes the GPU of its number: leave model.device at auto under torchrun")
    when_gone(os.getppid(), lambda: os.kill(os.getpid(), signal.SIGTERM))  # torchrun was killed: nobody would tell us
    return join()


def lead(ranks: Ranks, config: LearningConfig, policy: Policy, resume: Path | None) -> None:
    """Rank 0, when it has loaded: the others load the same. UserError where they got other weights."""
    if ranks.size > 1:
        ranks.tell(Begin(config, resume, policy.tried.path, os.getpid()))
        compare(ranks, policy)


def compare(ranks: Ranks, policy: Policy) -> None:
    """At every rank. Ranks that differ would train apart, and nothing else would show it."""
    found = ranks.gather(digest([p for p in policy.model.parameters() if p.requires_grad]))
    if any(each != found[0] for each in found):
        raise UserError("the ranks of this node loaded different weights: do all read the same files?")
