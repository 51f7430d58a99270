"""Decoders over a model's own forward: with its key-value cache, or without one for models that have none to share."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import DynamicLayer

from swarm_node.policy.device import on_host, probed, to_device
from swarm_node.policy.policy import Policy, agreement
from swarm_node.policy.tree_attention import WORTH


def pad_left(prompts: Sequence[Sequence[int]], pad_id: int, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """ids, attention mask and positions, each [prompts, longest]."""
    width = max(map(len, prompts))
    ids = to_device([[pad_id] * (width - len(p)) + list(p) for p in prompts], device)
    mask = to_device([[0] * (width - len(p)) + [1] * len(p) for p in prompts], device)
    return ids, mask, (mask.cumsum(1) - 1).clamp_min(0)


def _forward(policy: Policy, **inputs: Any) -> Any:
    with policy.generating():
        return policy.forward(**inputs)


class RoomyLayer(DynamicLayer):  # type: ignore[misc]  # transformers carries no types
    """A layer's keys and values, repeated for the group, with room for all new tokens.

    The library's layer concatenates, which copies the whole cache for every token.
    """

    def __init__(self, layer: Any, group_size: int, room: int) -> None:
        super().__init__()
        self.lazy_initialization(layer.keys, layer.values)
        self._seen: int = layer.keys.shape[-2]
        self.keys, self.values = (self._repeated(x, group_size, room) for x in (layer.keys, layer.values))

    def _repeated(self, x: Tensor, group_size: int, room: int) -> Tensor:
        rows, heads, seen, dim = x.shape
        buffer = x.new_empty(rows, group_size, heads, seen + room, dim)
        buffer[:, :, :, :seen] = x.unsqueeze(1)
        return buffer.flatten(0, 1)

    def update(self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        start, self._seen = self._seen, self._seen + key_states.shape[-2]
        self.keys[:, :, start : self._seen] = key_states
        self.values[:, :, start : self._seen] = value_states
        return self.keys[:, :, : self._seen], self.values[:, :, : self._seen]

    def get_seq_length(self) -> int:
        """Tokens that it holds; transformers asks."""
        return self._seen


class ModelDecoder:
    """The model's forward and cache: prompts prefilled once, the cache repeated for the group.

    transformers looks at its mask for every token, which a device is waited for.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._cache: Any = None
        self._mask = self._position = torch.empty(0)

    def prefill(self, prompts: Sequence[Sequence[int]], group_size: int, max_new: int) -> Tensor:
        ids, mask, positions = pad_left(prompts, self._policy.pad_id, self._policy.device)
        output = _forward(
            self._policy, input_ids=ids, attention_mask=mask, position_ids=positions, use_cache=True, logits_to_keep=1
        )
        self._cache = output.past_key_values
        if all(type(layer) is DynamicLayer for layer in self._cache.layers):
            self._cache.layers = [RoomyLayer(layer, group_size, max_new) for layer in self._cache.layers]
        else:  # windows, recurrent states: the library knows how to repeat them
            self._cache.batch_repeat_interleave(group_size)
        self._mask = mask.repeat_interleave(group_size, 0)
        self._position = positions[:, -1:].repeat_interleave(group_size, 0) + 1
        logits: Tensor = output.logits[:, -1]
        return logits.repeat_interleave(group_size, 0)

    def reserve(self, tokens: int) -> None:
        """Nothing to do: `prefill` has made room for all."""

    def step(self, tokens: Tensor, running: Tensor) -> Tensor:
        self._mask = torch.cat([self._mask, self._mask.new_ones(len(tokens), 1)], dim=1)
        output = _forward(
            self._policy,
            input_ids=tokens[:, None],
            attention_mask=self._mask,
            position_ids=self._position,
            past_key_values=self._cache,
            use_cache=True,
        )
        self._position = self._position + 1
        logits: Tensor = output.logits[:, -1]
        return logits

    def keep(self, slots: Tensor) -> None:
        rows = slots.flatten().clamp_min(0)
        self._cache.batch_select_indices(rows)
        self._mask, self._position = self._mask[rows], self._position[rows]


class RecomputeDecoder:
    """No cache: the whole sequence again for every token. Slow and right, for models whose cache cannot be shared.

    Rows are fed one prompt length at a time and without padding, because recurrent layers see pads.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._sequences: list[list[int]] = []

    def prefill(self, prompts: Sequence[Sequence[int]], group_size: int, max_new: int) -> Tensor:
        self._sequences = [list(prompt) for prompt in prompts for _ in range(group_size)]
        return self._forward()

    def reserve(self, tokens: int) -> None:
        """Nothing to do: there is no cache."""

    def step(self, tokens: Tensor, running: Tensor) -> Tensor:
        for sequence, token in zip(self._sequences, on_host(tokens).tolist(), strict=True):
            sequence.append(token)
        return self._forward()

    def keep(self, slots: Tensor) -> None:
        self._sequences = [self._sequences[slot].copy() for slot in on_host(slots.flatten()).tolist()]

    def _forward(self) -> Tensor:
        by_length: dict[int, list[int]] = {}
        for index, sequence in enumerate(self._sequences):
            by_length.setdefault(len(sequence), []).append(index)
        parts: list[Tensor] = [torch.empty(0)] * len(self._sequences)
        for indices in by_length.values():
            ids = to_device([self._sequences[i] for i in indices], self._policy.device)
            for index, row in zip(
                indices, _forward(self._policy, input_ids=ids, use_cache=False).logits[:, -1], strict=True
            ):
                parts[index] = row
        return torch.stack(parts)


@torch.inference_mode()
def agrees(decoder_type: type[Any], policy: Policy) -> bool | None:
    """Whether prefill, step and keep give the logits of the full forward, on two prompts that begin alike and are of
    different length. None where they fail."""
    vocabulary = policy.model.get_input_embeddings().weight.shape[0]
    first = [(7 * i + 3) % vocabulary for i in range(WORTH + 5)]
    prompts = [first, [*first[:WORTH], *[(11 * i + 1) % vocabulary for i in range(3)]]]
    fed = [torch.tensor([(13 * i + k) % vocabulary for i in range(4)], device=policy.device) for k in (2, 5, 7)]
    slots = torch.tensor([[[0, 1], [2, 3]], [[1, 1], [2, 3]], [[0, -1], [2, 3]]], device=policy.device)

    def both() -> tuple[Tensor, Tensor]:
        ours = _probe(decoder_type(policy), prompts, fed, slots)
        return ours, _probe(RecomputeDecoder(policy), prompts, fed, slots)

    found = probed(both, "in trying a decoder")  # an architecture that does not fit may fail in any way
    if found is None:
        return None
    ours, reference = found
    coarse = policy.autocast_dtype is not None or not policy.precision.plain or reference.dtype != torch.float32
    return agreement(ours, reference, coarse=coarse)


def _probe(decoder: Any, prompts: list[list[int]], fed: list[Tensor], slots: Tensor) -> Tensor:
    running = torch.ones_like(fed[0], dtype=torch.bool)
    seen = [decoder.prefill(prompts, 2, 4)]
    for tokens, kept in zip(fed, slots, strict=True):
        decoder.reserve(1)
        decoder.keep(kept)
        seen.append(decoder.step(tokens, running)[kept.flatten() >= 0])
    return torch.cat(seen)
