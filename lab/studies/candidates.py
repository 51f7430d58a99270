"""Ways to train on external groups that should cost a node nothing of its own tasks. `lab.studies.samplers` compares
them; it names each as FILE:NAME, since the workers of a simulation cannot import `lab`."""

from collections.abc import Sequence
from statistics import fmean

import torch

from swarm_node.extensions.selection.adaptive import AdaptiveSampler
from swarm_node.rollouts.groups import ScoredGroup
from swarm_node.rollouts.sampler import UniformSampler
from swarm_node.training.objectives import Bounds, Terms, TokenLoss, clipped

NEWEST = 0.1  # weight of the newest rate of success
FALLEN = 0.95  # of the best rate of success on own tasks: below it J is halved


def task_of(group: ScoredGroup) -> str:
    return f"{group.question.dataset}/{group.question.config_id}"


class Needed(UniformSampler):
    """Takes groups of the tasks at which their authors are furthest ahead of this node, and none where they are not."""

    def __init__(self) -> None:
        self._rates: dict[str, float] = {}  # of success here, by task; a task that is never asked counts as failed

    def observe(self, local: Sequence[ScoredGroup]) -> None:
        for group in local:
            known = self._rates.setdefault(task_of(group), fmean(group.rewards))
            self._rates[task_of(group)] = known + NEWEST * (fmean(group.rewards) - known)

    def at_once(self, missing: int) -> int:
        return 4 * missing

    def ahead(self, group: ScoredGroup) -> float:
        return fmean(group.rewards) - self._rates.get(task_of(group), 0.0)

    def choose(self, scored: Sequence[ScoredGroup], count: int) -> list[ScoredGroup]:
        useful = [group for group in scored if group.informative and self.ahead(group) > 0]
        return sorted(useful, key=self.ahead, reverse=True)[:count]


class Guarded(UniformSampler):
    """Halves J, for local groups in its place, as long as own tasks succeed less often than they did at best."""

    def __init__(self) -> None:
        self._rate: float | None = None
        self._best = 0.0

    def observe(self, local: Sequence[ScoredGroup]) -> None:
        rate = fmean(fmean(group.rewards) for group in local) if local else self._rate or 0.0
        self._rate = rate if self._rate is None else self._rate + NEWEST * (rate - self._rate)
        self._best = max(self._best, self._rate)

    def split(self, local: int, external: int) -> tuple[int, int]:
        fallen = self._rate is not None and self._rate < FALLEN * self._best
        kept = external // 2 if fallen else external
        return local + external - kept, kept


class Beside(AdaptiveSampler):
    """As adaptive, but with J external groups at least: sharing goes on where all local groups are informative."""

    def split(self, local: int, external: int) -> tuple[int, int]:
        mine, others = super().split(local, external)
        return mine, max(external, others)


def without_negatives(terms: Terms, bounds: Bounds) -> TokenLoss:
    """Nothing is learned from external completions that are worse than their group (arXiv 2605.17570)."""
    vetoed = terms.external & (terms.advantages < 0)
    return clipped(terms._replace(advantages=terms.advantages.masked_fill(vetoed, 0.0)), bounds)


def likely_tokens(terms: Terms, bounds: Bounds) -> TokenLoss:
    """External tokens weigh by how likely they are here, so that what this node would never say teaches little: the
    bound that HACPO (arXiv 2603.02604) puts on another agent's tokens, without the other's log-probs."""
    weights = torch.where(terms.external, terms.weights * terms.proximal.exp(), terms.weights)
    return clipped(terms._replace(weights=weights), bounds)
