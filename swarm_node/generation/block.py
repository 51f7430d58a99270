"""Generates some tokens for every slot at a time, with nothing in between for which the host waits.

On a CPU, completions of a prompt that have begun with the same tokens are decoded once, until they
differ. On CUDA a step is recorded once and replayed, as a CUDA graph: a small model's hundreds of
kernels take less time to run than to launch. Replay saves three quarters of the time for 64
completions of 0.5 B on an H200 (docs/results/speed.md).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import compress
from math import prod
from typing import Any, Protocol

import torch
from torch import Tensor

from swarm_node.generation.pacing import Astray
from swarm_node.generation.sampling import draw
from swarm_node.policy.log_probs import log_distribution
from swarm_node.policy.policy import Policy

BLOCK = 16  # tokens between two looks at what has ended, on a device for which the host waits
# Share of slots in use at which the others are dropped; moving the cache costs about a step
COMPACT_BELOW = 0.5
MOST_RECORDED = 32  # sizes of places; each recording has memory for its graph


class Decoder(Protocol):
    """Incremental logits for slots [prompts, group], numbered prompt by prompt."""

    # Whether the prompts of the next prefill will begin with these, and what was written after
    # them. A decoder may keep what it has computed of them
    again: bool

    def __init__(self, policy: Policy) -> None: ...

    def prefill(self, prompts: Sequence[Sequence[int]], group_size: int, max_new: int) -> Tensor:
        """Logits [prompts * group, vocabulary] of the first new token."""
        ...

    def reserve(self, tokens: int) -> None:
        """Make room for so many steps, which follow."""
        ...

    def step(self, tokens: Tensor, running: Tensor) -> Tensor:
        """Feed one token per slot, [slots]; logits [slots, vocabulary] of the next. `reserve` comes
        first. Logits of slots that are not `running` are never read.
        """
        ...

    def keep(self, slots: Tensor) -> None:
        """Go on with these slots only: [prompts', group'] of old slot numbers, a row per prompt. A
        slot may come more than once. -1 is an empty slot, on a CPU only.
        """
        ...


class Replayable(Decoder, Protocol):
    """A decoder whose steps read and write the same places whenever `sizes` are the same. The first
    of them counts how often those places have moved.
    """

    @property
    def sizes(self) -> tuple[int, ...]: ...


@dataclass(frozen=True, slots=True)
class Slots:
    """The state of each slot: tensors [slots]."""

    token: Tensor  # the latest
    length: Tensor  # tokens, with the one that ended it
    running: Tensor  # bool
    mean: Tensor  # of log-probs, as `Astray` has it

    @classmethod
    def start(cls, count: int, device: torch.device) -> "Slots":
        nothing = torch.zeros(count, dtype=torch.long, device=device)
        running = torch.ones_like(nothing, dtype=torch.bool)
        return cls(nothing, nothing, running, torch.zeros(count, device=device))

    def only(self, slots: Tensor) -> "Slots":
        """These slots alone, in this order."""
        return Slots(self.token[slots], self.length[slots], self.running[slots], self.mean[slots])

    def clone(self) -> "Slots":
        """A copy of these slots: its numbers are in tensors of their own."""
        return Slots(
            self.token.clone(), self.length.clone(), self.running.clone(), self.mean.clone()
        )

    def copy_(self, other: "Slots") -> None:
        """Takes over the numbers of `other`."""
        self.token.copy_(other.token)
        self.length.copy_(other.length)
        self.running.copy_(other.running)
        self.mean.copy_(other.mean)


@dataclass(frozen=True, slots=True)
class Drawing:
    """How logits become tokens, and which tokens end a completion."""

    temperature: float
    eos: Tensor  # [ids]
    astray: Astray

    def __call__(self, logits: Tensor, uniform: Tensor, at: Slots) -> tuple[Slots, Tensor]:
        """One token per slot from logits [slots, vocabulary], and its log-prob."""
        log_p = log_distribution(logits, self.temperature)
        token = draw(log_p, uniform)
        taken = log_p.gather(1, token[:, None])[:, 0]
        mean, fallen = self.astray(at.mean, taken)
        over = torch.isin(token, self.eos)
        if fallen is not None:
            over = over | fallen
        return Slots(token, at.length + at.running, at.running & ~over, mean), taken


Work = Callable[[Any, Drawing, Tensor, Slots], tuple[Slots, Tensor, Tensor]]


def block(
    decoder: Decoder, drawing: Drawing, uniform: Tensor, at: Slots
) -> tuple[Slots, Tensor, Tensor]:
    """Takes as many steps as `uniform` [steps, slots] has rows. Returns the slots after that, and
    the tokens of all steps and their log-probs, [steps, slots].
    """
    tokens, log_probs = [], []
    for one in uniform.unbind(0):
        at, taken = drawing(decoder.step(at.token, at.running), one, at)
        tokens.append(at.token)
        log_probs.append(taken)
    if len(tokens) == 1:
        return at, tokens[0][None], log_probs[0][None]
    return at, torch.stack(tokens), torch.stack(log_probs)


class _Recorded:
    """A step with its inputs and outputs at fixed places."""

    def __init__(
        self,
        decoder: Replayable,
        drawing: Drawing,
        uniform: Tensor,
        at: Slots,
        beside: "_Recorded | None" = None,
    ) -> None:
        """`beside`: another recording, whose memory this one uses, too: they are never replayed at
        the same time, and what one returns is read before the next.
        """
        self._uniform, self._at = uniform.clone(), at.clone()
        self._graph = torch.cuda.CUDAGraph()
        self._drawing = drawing  # holds a tensor that the recording reads
        pool = None if beside is None else beside._graph.pool()
        # On the current device, which may be another one in this thread, it would record nothing
        with torch.cuda.device(uniform.device), torch.cuda.graph(self._graph, pool=pool):
            logits = decoder.step(self._at.token, self._at.running)
            after, self._taken = drawing(logits, self._uniform, self._at)
            self._at.copy_(after)

    def __call__(self, uniform: Tensor, at: Slots) -> tuple[Slots, Tensor]:
        """Does what a step of `block` does, by replaying the recording. The next call overwrites
        the returned tensors.
        """
        self._uniform.copy_(uniform)
        if at is not self._at:
            self._at.copy_(at)
        self._graph.replay()
        return self._at, self._taken


class Graphs:
    """Implements block.Work for our own decoder, over all its rounds: a step is recorded once for
    each size of its places.
    """

    def __init__(self) -> None:
        self._moves = 0  # of the places that the recordings are of
        self._recorded: dict[tuple[int, ...], _Recorded | None] = {}

    def __call__(
        self, decoder: Replayable, drawing: Drawing, uniform: Tensor, at: Slots
    ) -> tuple[Slots, Tensor, Tensor]:
        """See `block`. The first step of a size is not recorded: it loads and compiles kernels,
        which a recording cannot.
        """
        size = decoder.sizes
        if size[0] != self._moves or len(self._recorded) > MOST_RECORDED:
            self._moves, self._recorded = size[0], {}
        tokens = torch.empty(uniform.shape, dtype=at.token.dtype, device=uniform.device)
        log_probs = torch.empty(uniform.shape, device=uniform.device)
        for k, of_step in enumerate(uniform.unbind(0)):
            if size not in self._recorded:
                self._recorded[size] = None
                after, new_tokens, new_log_probs = block(decoder, drawing, of_step[None], at)
                tokens[k], log_probs[k] = new_tokens[0], new_log_probs[0]
            else:
                recorded = self._recorded[size]
                if recorded is None:
                    beside = next(filter(None, self._recorded.values()), None)
                    recorded = _Recorded(decoder, drawing, of_step, at, beside)
                    self._recorded[size] = recorded
                after, taken = recorded(of_step, at)
                tokens[k], log_probs[k] = after.token, taken
            at = after
        return at.clone(), tokens, log_probs


class Distinct:
    """Implements block.Decoder with another decoder, in which no two slots are alike. It reads each
    token, so it is for a CPU, where reading takes no wait.
    """

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder
        self._slot_of: list[int] = []  # the decoder's slot of each slot here
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
        # What a slot here continues: a slot of the decoder, and the token that follows it
        pairs = list(zip(self._slot_of, tokens.tolist(), strict=True))
        runs = running.tolist()
        distinct = list(dict.fromkeys(compress(pairs, runs)))
        parents = {slot for slot, _ in distinct}
        shares_a_parent = len(parents) < len(distinct)
        if shares_a_parent or len(parents) <= COMPACT_BELOW * prod(self._shape):
            placed = self._rearranged(distinct)
        else:
            placed = {(slot, token): slot for slot, token in distinct}
        fed = torch.zeros(prod(self._shape), dtype=torch.long)
        slots, next_tokens = list(placed.values()), [token for _, token in placed]
        fed[slots] = torch.tensor(next_tokens)
        self._slot_of = [placed.get(pair, 0) for pair in pairs]  # ended slots are never read
        logits = self._decoder.step(fed, running)
        return logits if self._slot_of == list(range(len(logits))) else logits[self._slot_of]

    def _rearranged(self, distinct: Sequence[tuple[int, int]]) -> dict[tuple[int, int], int]:
        """Gives each of these pairs (a slot of the decoder, the token that follows it) a slot of
        its own.
        """
        group = self._shape[1]
        rows: dict[int, list[tuple[int, int]]] = {}
        for slot, token in distinct:
            rows.setdefault(slot // group, []).append((slot, token))
        width = max(map(len, rows.values()))
        self._shape = len(rows), width
        padded: list[list[int]] = []  # -1: a slot without a parent, as many in each row
        for row in rows.values():
            parents = [slot for slot, _ in row]
            padded.append(parents + [-1] * (width - len(row)))
        self._decoder.keep(torch.tensor(padded))
        placed: dict[tuple[int, int], int] = {}
        for number, row in enumerate(rows.values()):
            placed |= {pair: width * number + k for k, pair in enumerate(row)}
        return placed
