"""Decoders over a model's own forward: with its cache, or without one for models whose cache
cannot be shared.

Theory of operation
===================

A decoder gives logits for slots, which stand prompt by prompt, `group` slots for each
(`block.Decoder`). A generator drives it (`generator.Decoding`):

    prefill(prompts)        two prompts, three completions each
        |                   slots  0 1 2 | 3 4 5
        v
    step, step, ...         one token for each slot; slots 1, 2 and 4 end
        |
        v
    keep([[0, 0], [3, 5]])  slots  0 1 | 2 3     which are the old 0 0 | 3 5
        |
        v
    step, step, ...

`ModelDecoder` prefills each prompt once and repeats the cache for its group. Prompts of different
length are padded on the left, and a mask hides the pads from attention. A recurrent layer has no
mask: its state would have seen the pads. So a model with such layers is fed prompts of one length
at a time, and `_joined` puts the caches together, after which all slots decode in one batch.
`RecomputeDecoder` keeps the sequences alone and feeds them whole for every token. It is slow, and
every other decoder is compared with it.

These hold for any decoder:

- The logits of a slot depend on the tokens of that slot alone. Which other slots there are, and
  when they end, changes nothing but rounding.
- `prefill` or `reserve` makes room for the tokens that follow, so a step moves no cache. Only
  `keep` does.
- Slots that have ended are stepped until the next `keep`, and nobody reads their logits.
- A decoder is used for a model only where it has agreed with `RecomputeDecoder` on that model
  (`agrees`). An architecture that does not fit may fail in any way, and then another is taken.
"""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers.cache_utils import DynamicCache, DynamicLayer, LinearAttentionLayer

from swarm_node.policy.device import on_host, probed, to_device
from swarm_node.policy.policy import QUANTISED, Policy, agreement, rounding
from swarm_node.policy.tree_attention import WORTH

# Names: since transformers 5.24, before, before in Mamba
CACHES = ("cache", "past_key_values", "cache_params")


def pad_left(
    prompts: Sequence[Sequence[int]], pad_id: int, device: torch.device
) -> tuple[Tensor, Tensor, Tensor]:
    """ids, attention mask and positions, each [prompts, longest]."""
    width = max(map(len, prompts))
    padded: list[list[int]] = []
    attended: list[list[int]] = []
    for prompt in prompts:
        pads = width - len(prompt)
        padded.append([pad_id] * pads + list(prompt))
        attended.append([0] * pads + [1] * len(prompt))
    mask = to_device(attended, device)
    positions = (mask.cumsum(1) - 1).clamp_min(0)
    return to_device(padded, device), mask, positions


def _forward(policy: Policy, **inputs: Any) -> Any:
    with policy.generating():
        return policy.forward(**inputs)


class RoomyLayer(DynamicLayer):  # type: ignore[misc]  # transformers carries no types
    """A layer's keys and values of some rows, with room for all new tokens.

    The library's layer concatenates, which copies the whole cache for every token.
    """

    def __init__(self, layer: Any, rows: Tensor, room: int) -> None:
        super().__init__()
        self.lazy_initialization(layer.keys, layer.values)
        self._seen: int = layer.keys.shape[-2]
        self.keys = self._roomy(layer.keys, rows, room)
        self.values = self._roomy(layer.values, rows, room)

    def _roomy(self, x: Tensor, rows: Tensor, room: int) -> Tensor:
        _, heads, seen, dim = x.shape
        buffer = x.new_empty(len(rows), heads, seen + room, dim)
        buffer[:, :, :seen] = x[rows]
        return buffer

    def update(
        self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any
    ) -> tuple[Tensor, Tensor]:
        start, self._seen = self._seen, self._seen + key_states.shape[-2]
        self.keys[:, :, start : self._seen] = key_states
        self.values[:, :, start : self._seen] = value_states
        return self.keys[:, :, : self._seen], self.values[:, :, : self._seen]

    def get_seq_length(self) -> int:
        """Tokens that it holds; transformers asks."""
        return self._seen


def _joined(caches: Sequence[Any]) -> Any:
    """The first of these caches, that of the longest prompts, with the rows of all. Keys and values
    of short prompts have pads before them; states of recurrent layers have seen no pads.
    """
    whole = caches[0]
    for first, *others in zip(*(cache.layers for cache in caches), strict=True):
        for name in ("conv_states", "recurrent_states"):
            states = getattr(first, name, {})
            for k, state in states.items():
                if state is not None:
                    of_others = [getattr(layer, name)[k] for layer in others]
                    states[k] = torch.cat([state, *of_others])
        for name in ("keys", "values"):
            if getattr(first, name, None) is not None:
                parts = [getattr(layer, name) for layer in (first, *others)]
                width = parts[0].shape[2]
                setattr(first, name, torch.cat([_widened(part, width) for part in parts]))
    return whole


def _widened(part: Tensor, width: int) -> Tensor:
    """Keys or values with pads before them, so that they are of `width` positions."""
    return F.pad(part, (0, 0, width - part.shape[2], 0))


class ModelDecoder:
    """The model's forward and cache: prompts prefilled once, the cache repeated for the group.

    Recurrent layers see pads. So a model with such layers is fed prompts of one length at a time,
    and then decodes all of them together. transformers looks at its mask for every token, for which
    the host waits for the device.
    """

    again = False  # it prefills everything again

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        layers = DynamicCache(config=policy.causal.config).layers
        self._recurrent = any(isinstance(layer, LinearAttentionLayer) for layer in layers)
        self._attends = True
        self._cache: Any = None
        self._mask = self._position = torch.empty(0)

    def prefill(self, prompts: Sequence[Sequence[int]], group_size: int, max_new: int) -> Tensor:
        ids, mask, positions = pad_left(prompts, self._policy.pad_id, self._policy.device)
        parts = _by_length(prompts) if self._recurrent else [list(range(len(prompts)))]
        outputs = []
        for part in parts:
            fed = {"input_ids": ids, "attention_mask": mask, "position_ids": positions}
            if self._recurrent:
                of_one_length = [list(prompts[index]) for index in part]
                fed = {"input_ids": to_device(of_one_length, self._policy.device)}
            outputs.append(_forward(self._policy, **fed, use_cache=True, logits_to_keep=1))
        self._name = next(name for name in CACHES if name in outputs[0])
        fed_as = [index for part in parts for index in part]
        row_of_prompt = [fed_as.index(k) for k in range(len(prompts))]
        rows = to_device(row_of_prompt, self._policy.device).repeat_interleave(group_size)
        self._cache = _joined([output[self._name] for output in outputs])
        keys_of_layers = [getattr(layer, "keys", None) for layer in self._cache.layers]
        self._attends = any(keys is not None for keys in keys_of_layers)
        for k, layer in enumerate(self._cache.layers):
            if type(layer) is DynamicLayer:
                self._cache.layers[k] = RoomyLayer(layer, rows, max_new)
            else:  # windows, recurrent states: the library knows how to repeat them
                layer.reorder_cache(rows)
        self._mask = mask.repeat_interleave(group_size, 0)
        self._position = positions[:, -1:].repeat_interleave(group_size, 0) + 1
        return torch.cat([output.logits[:, -1] for output in outputs])[rows]

    def reserve(self, tokens: int) -> None:
        """Nothing to do: `prefill` has made room for all."""

    def step(self, tokens: Tensor, running: Tensor) -> Tensor:
        of_new_tokens = self._mask.new_ones(len(tokens), 1)
        self._mask = torch.cat([self._mask, of_new_tokens], dim=1)
        fed = {"input_ids": tokens[:, None], self._name: self._cache}
        if self._attends:
            fed |= {"attention_mask": self._mask, "position_ids": self._position}
        output = _forward(self._policy, **fed, use_cache=True)
        self._position = self._position + 1
        logits: Tensor = output.logits[:, -1]
        return logits

    def keep(self, slots: Tensor) -> None:
        rows = slots.flatten().clamp_min(0)
        self._cache.reorder_cache(rows)
        self._mask, self._position = self._mask[rows], self._position[rows]


def _by_length(sequences: Sequence[Sequence[int]]) -> list[list[int]]:
    """Numbers of the sequences of each length, the longest first."""
    by_length: dict[int, list[int]] = {}
    for index, sequence in enumerate(sequences):
        by_length.setdefault(len(sequence), []).append(index)
    return [by_length[length] for length in sorted(by_length, reverse=True)]


class RecomputeDecoder:
    """No cache: feeds the whole sequence again for every token. Slow but right, if a cache cannot
    be shared.

    Rows are fed one prompt length at a time and without padding, because recurrent layers see pads.
    """

    again = False  # it prefills everything again

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
        kept = on_host(slots.flatten()).tolist()
        self._sequences = [self._sequences[slot].copy() for slot in kept]

    def _forward(self) -> Tensor:
        parts: list[Tensor] = [torch.empty(0)] * len(self._sequences)
        for indices in _by_length(self._sequences):
            ids = to_device([self._sequences[i] for i in indices], self._policy.device)
            logits = _forward(self._policy, input_ids=ids, use_cache=False).logits[:, -1]
            for index, row in zip(indices, logits, strict=True):
                parts[index] = row
        return torch.stack(parts)


@torch.inference_mode()
def agrees(decoder_type: type[Any], policy: Policy) -> bool | None:
    """Whether prefill, step and keep give the logits of the full forward, on two prompts that begin
    alike and are of different length. None if a decoder fails.
    """
    vocabulary = policy.model.get_input_embeddings().weight.shape[0]
    first = [(7 * i + 3) % vocabulary for i in range(WORTH + 5)]
    other_end = [(11 * i + 1) % vocabulary for i in range(3)]
    prompts = [first, [*first[:WORTH], *other_end]]
    fed: list[Tensor] = []  # the tokens of each step, one for each slot
    for step in (2, 5, 7):
        tokens = [(13 * i + step) % vocabulary for i in range(4)]
        fed.append(torch.tensor(tokens, device=policy.device))
    slots = torch.tensor(
        [[[0, 1], [2, 3]], [[1, 1], [2, 3]], [[0, -1], [2, 3]]], device=policy.device
    )

    def both() -> tuple[Tensor, Tensor]:
        ours = _probe(decoder_type(policy), prompts, fed, slots)
        return ours, _probe(RecomputeDecoder(policy), prompts, fed, slots)

    # An architecture that does not fit may fail in any way
    found = probed(both, "in trying a decoder")
    if found is None:
        return None
    ours, reference = found
    allowed = (
        rounding(policy.autocast_dtype or reference.dtype) if policy.precision.plain else QUANTISED
    )
    return agreement(ours, reference, allowed)


def _probe(decoder: Any, prompts: list[list[int]], fed: list[Tensor], slots: Tensor) -> Tensor:
    running = torch.ones_like(fed[0], dtype=torch.bool)
    seen = [decoder.prefill(prompts, 2, 4)]
    for tokens, kept in zip(fed, slots, strict=True):
        decoder.reserve(1)
        decoder.keep(kept)
        seen.append(decoder.step(tokens, running)[kept.flatten() >= 0])
    return torch.cat(seen)
