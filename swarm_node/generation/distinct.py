"""Completions of a prompt that have begun with the same tokens are decoded once, until they differ."""

from collections.abc import Sequence

import torch
from torch import Tensor

from swarm_node.generation.block import Decoder

COMPACT_BELOW = 0.5  # share of slots in use at which the others are dropped; moving the cache costs about a step


class Distinct:
    """Implements block.Decoder with another one, whose slots are distinct. It looks at each token, so it is for a CPU,
    which is not waited for."""

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder
        self._slot_of: list[int] = []  # of each slot here: that of the decoder
        self._shape = (0, 0)  # of the decoder's slots: prompts, group

    def prefill(self, prompts: Sequence[Sequence[int]], group_size: int, max_new: int) -> Tensor:
        self._shape = len(prompts), 1
        self._slot_of = [prompt for prompt in range(len(prompts)) for _ in range(group_size)]
        return self._decoder.prefill(prompts, 1, max_new).repeat_interleave(group_size, 0)

    def reserve(self, tokens: int) -> None:
        self._decoder.reserve(tokens)

    def keep(self, slots: Tensor) -> None:
        self._slot_of = [self._slot_of[slot] for slot in slots.flatten().tolist()]

    def step(self, tokens: Tensor, running: Tensor) -> Tensor:
        reached = list(zip(self._slot_of, tokens.tolist(), strict=True))
        distinct = dict.fromkeys(one for one, runs in zip(reached, running.tolist(), strict=True) if runs)
        used, there = len({slot for slot, _ in distinct}), self._shape[0] * self._shape[1]
        if used < len(distinct) or used <= COMPACT_BELOW * there:
            placed = self._rearranged(list(distinct))
        else:
            placed = {(slot, token): slot for slot, token in distinct}
        fed = torch.zeros(self._shape[0] * self._shape[1], dtype=torch.long)
        fed[list(placed.values())] = torch.tensor([token for _, token in placed])
        self._slot_of = [placed.get(one, 0) for one in reached]  # nobody reads those that have ended
        return self._decoder.step(fed, running)[self._slot_of]

    def _rearranged(self, distinct: Sequence[tuple[int, int]]) -> dict[tuple[int, int], int]:
        """Gives each of these, a slot of the decoder and the token that follows it, a slot of its own."""
        group = self._shape[1]
        rows: dict[int, list[tuple[int, int]]] = {}
        for one in distinct:
            rows.setdefault(one[0] // group, []).append(one)
        width = max(map(len, rows.values()))
        self._shape = len(rows), width
        parents = [[slot for slot, _ in row] for row in rows.values()]
        self._decoder.keep(torch.tensor([row + [-1] * (width - len(row)) for row in parents]))
        return {one: width * number + k for number, row in enumerate(rows.values()) for k, one in enumerate(row)}
