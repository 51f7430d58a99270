"""The generator and the trainer of a rank: each does its share, and all have the whole of what came of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from swarm_node.extensions.gpus.ranks import JoinedRanks
from swarm_node.generation.generator import BatchGenerator
from swarm_node.node.ranks import Ranks
from swarm_node.policy.batch import TokenGroup
from swarm_node.policy.policy import Policy
from swarm_node.rollouts.groups import GeneratedGroup, ScoredGroup, Skipped
from swarm_node.rollouts.reports import StepReport
from swarm_node.settings import LearningConfig
from swarm_node.training.objectives import Totals
from swarm_node.training.trainer import GrpoTrainer


class JoinedGenerator(BatchGenerator):
    """Generates for its share of the prompts."""

    def __init__(self, ranks: JoinedRanks, *arguments: Any, **options: Any) -> None:
        """`arguments` and `options` are those of BatchGenerator."""
        self._ranks = ranks
        super().__init__(*arguments, **options)

    @property
    def decoder_name(self) -> str:
        """See BatchGenerator."""
        return f"{super().decoder_name}, {self._ranks.size} ranks"

    def generate(self, prompts: Sequence[str], group_size: int, stream: str) -> list[GeneratedGroup | Skipped]:
        """See BatchGenerator."""
        self._ranks.tell("generate", list(prompts), group_size, stream)
        return super().generate(prompts, group_size, stream)

    def _own(self, count: int) -> range:
        return self._ranks.share(count)

    def _whole(self, found: dict[int, GeneratedGroup | Skipped]) -> dict[int, GeneratedGroup | Skipped]:
        return {i: group for part in self._ranks.gather(found) for i, group in part.items()}


class JoinedTrainer(GrpoTrainer):
    """Computes the gradient of its share of the rows, and steps with the sum of all."""

    def __init__(self, ranks: JoinedRanks, *arguments: Any, **options: Any) -> None:
        """`arguments` and `options` are those of GrpoTrainer."""
        self._ranks = ranks
        super().__init__(*arguments, **options)

    def update(self, groups: Sequence[ScoredGroup]) -> StepReport:
        """See GrpoTrainer."""
        self._ranks.tell("update", list(groups))
        return super().update(groups)

    def optimizer_tensors(self) -> dict[str, Tensor]:
        """See GrpoTrainer."""
        return self._ranks.whole(super().optimizer_tensors())

    def _kept(self, parameters: list[nn.Parameter]) -> list[nn.Parameter]:
        return self._ranks.kept(parameters)

    def _own(self, rows: list[TokenGroup]) -> list[TokenGroup]:
        return [rows[i] for i in self._ranks.dealt([row.length for row in rows])]

    def _fits(self, here: bool) -> bool:
        return all(self._ranks.gather(here))

    def _whole(self, loss: float, counted: Totals, totals: Totals) -> float:
        shares = self._ranks.gather((loss, counted))
        self._ranks.add_gradients(self.parameters)
        for _, part in shares:
            totals.add(part)
        return sum(each for each, _ in shares)

    def _change_weights(self) -> None:
        super()._change_weights()
        self._ranks.spread(self.parameters)


@dataclass(frozen=True)
class LearningRanks(JoinedRanks, Ranks):
    """This process among several that learn together."""

    def begin(self, config: LearningConfig, policy: Policy, resume: Path | None) -> None:
        """Rank 0 alone."""

    def generator(self, *arguments: Any, **options: Any) -> JoinedGenerator:
        """See Ranks."""
        return JoinedGenerator(self, *arguments, **options)

    def trainer(self, *arguments: Any, **options: Any) -> JoinedTrainer:
        """See Ranks."""
        return JoinedTrainer(self, *arguments, **options)
