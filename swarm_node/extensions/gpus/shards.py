"""AdamW's state over the ranks of a node: each keeps that of its share of the weights, and steps those alone.

The step of a weight needs nothing of the others, so it is the same wherever it is made. Weights and gradients are whole
at every rank.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from swarm_node.extensions.gpus.ranks import Ranks


class Shards:
    """Which rank keeps the state of which weight. Not sharded, every rank keeps all."""

    def __init__(self, parameters: Sequence[nn.Parameter], ranks: Ranks, sharded: bool) -> None:
        self._parameters, self._ranks = list(parameters), ranks
        self.sharded = sharded and 1 < ranks.size <= len(self._parameters)  # so that every rank has something to step
        sizes = [p.numel() for p in self._parameters]
        self._owners = ranks.owners(sizes) if self.sharded else [ranks.rank] * len(sizes)

    def keeps(self, index: int) -> bool:
        """Whether this rank has the state of this weight."""
        return self._owners[index] == self._ranks.rank

    @property
    def kept(self) -> list[nn.Parameter]:
        """Those whose state this rank has."""
        return [p for index, p in enumerate(self._parameters) if self.keeps(index)]

    def spread(self) -> None:
        """After a step, at all ranks: every weight becomes what its owner made of it."""
        if self.sharded:
            self._ranks.spread(self._parameters, self._owners)

    def tensors(self, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
        """The whole state by "INDEX.NAME", in memory of the host; at all ranks at the same time."""
        found = self._own(optimizer)
        if not self.sharded:
            return found
        parts = [self._ranks.of_rank(rank, found) for rank in range(self._ranks.size)]
        return {key: tensor for part in parts for key, tensor in part.items()}

    def _own(self, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
        """What several weights share, as the tables of AdamW in 8 bits, stands once for each: safetensors takes nothing
        that overlaps."""
        tensors: dict[str, Tensor] = {}
        places: set[int] = set()
        for index, parameter in enumerate(self._parameters):
            for name, value in _state(optimizer, parameter).items():
                tensor = torch.as_tensor(value).detach().cpu().contiguous()
                tensors[f"{index}.{name}"] = tensor.clone() if tensor.data_ptr() in places else tensor
                places.add(tensor.data_ptr())
        return tensors


def _state(optimizer: torch.optim.Optimizer, parameter: nn.Parameter) -> Mapping[str, object]:
    found: Mapping[str, object] = optimizer.state.get(parameter, {})
    return found
