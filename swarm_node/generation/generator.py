"""Sampling: what prompts share is prefilled once, and all questions of a round decode together.

Rows are kept in slots [prompts, group]. When half of them have ended the others are moved together,
so that a few long completions do not cost what all of them would. Randomness is one uniform number
per row and token, sampled ahead from a named stream: a completion depends on its own draws only,
not on the rest of the batch. On a GPU tokens come in blocks (block.py), and the host looks at what
has ended between blocks.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from math import isnan
from statistics import fmean
from typing import Literal, Protocol

import torch
from torch import Tensor

from swarm_node.common.batched import paired
from swarm_node.common.errors import Diverged, UserError
from swarm_node.generation.block import (
    BLOCK,
    COMPACT_BELOW,
    Decoder,
    Distinct,
    Drawing,
    Graphs,
    Slots,
    Work,
    block,
)
from swarm_node.generation.decoding import ModelDecoder, RecomputeDecoder, agrees
from swarm_node.generation.pacing import Astray, ConcurrencyLimit
from swarm_node.generation.sampling import uniforms
from swarm_node.generation.stops import Stops
from swarm_node.policy.device import OutOfMemory, attempt, on_host, probed, to_device
from swarm_node.policy.hardware import exact_device
from swarm_node.policy.llama.llama_decoder import LlamaDecoder, shares
from swarm_node.policy.policy import COARSE, Policy, agreement
from swarm_node.rollouts.groups import Completions, Sample, Skipped, Tokens
from swarm_node.settings import GenerationConfig

# Tokens of a completion up to which adapters are not merged, on a CPU with plenty of memory. What
# they then cost each step is less than a new copy of the base, laid out again, for every round. On
# a card they are never merged: memory is what it lacks
UNMERGED_UP_TO = 16
TOO_LONG = Skipped("prompt longer than the context")
OUT_OF_MEMORY = Skipped("out of device memory")
PROMPTS = 32  # prompts whose keys and values are held at once, if the base is shared to save memory


Contexts = Sequence[str | Sequence[int]]  # prompts, or the ids before a turn


class Writes(Protocol):
    """What writes completions: `Turns`, which may begin at a later row of the stream."""

    def __call__(
        self, contexts: Contexts, group_size: int, stream: str, first: int = 0, /
    ) -> list[Completions | Skipped]:
        """`group_size` completions of each context. `first`: the row of the stream that the first
        completion draws from, where another process writes those of the rows before.
        """
        ...


@dataclass(frozen=True, slots=True)
class Sampled:
    """A completion while it is generated: an entry of each list for each token."""

    ids: list[int]
    log_probs: list[float]


@dataclass(slots=True)
class TokenBuffer:
    """What all rows have so far: [limit, rows], of which the first `steps` are filled."""

    ids: Tensor
    log_probs: Tensor
    lengths: Tensor  # [rows]
    steps: int = 0

    @classmethod
    def start(cls, limit: int, rows: int, pad_id: int, device: torch.device) -> "TokenBuffer":
        ids = torch.full((limit, rows), pad_id, device=device)
        log_probs = torch.zeros(limit, rows, device=device)
        return cls(ids, log_probs, lengths=torch.zeros_like(ids[0]))

    def add(self, row: Tensor, tokens: Tensor, log_probs: Tensor, lengths: Tensor) -> None:
        """The next steps of some rows, [steps, slots], and their length [slots] after these."""
        new = slice(self.steps, self.steps + len(tokens))
        self.ids[new, row] = tokens
        self.log_probs[new, row] = log_probs
        self.lengths[row] = lengths
        self.steps += len(tokens)

    def split(self, group_size: int) -> list[list[Sampled]]:
        """The completions, by prompt. Diverged where the model gave no probabilities."""
        ids, log_probs = on_host(self.ids.T).tolist(), on_host(self.log_probs.T).tolist()
        sampled: list[Sampled] = []
        for row, length in enumerate(on_host(self.lengths).tolist()):
            sampled.append(Sampled(ids[row][:length], log_probs[row][:length]))
        if any(isnan(log_prob) for completion in sampled for log_prob in completion.log_probs):
            raise Diverged(
                "the model gives no probabilities any more: its weights are damaged, and are not "
                "saved; continue from the last checkpoint with a smaller training.learning_rate",
                sound=False,
            )
        return [sampled[k : k + group_size] for k in range(0, len(sampled), group_size)]


class BatchGenerator:
    """Implements interfaces.Generator on a policy's present weights."""

    def __init__(
        self,
        policy: Policy,
        config: GenerationConfig,
        decoder: Literal["auto", "native", "model"] = "auto",
        graphs: bool = True,
    ) -> None:
        """`decoder`: native for our own, model for the forward of transformers, auto for ours where
        its logits agree. `graphs`: steps are replayed where that works, which is on CUDA.
        """
        self._policy, self._config = policy, config
        self._stops = Stops(policy, config.stop)
        self._turn_stops = Stops(policy, config.stop, calls=True)
        self._decoder_type = choose_decoder(policy, decoder)
        # Whether one decoder serves all rounds, and where it is between them
        self._beside = unmerged(policy, config.max_completion_length)
        may_persist = self._decoder_type is LlamaDecoder and policy.precision.plain
        self._persists = may_persist and (
            self._beside or (policy.keeps_decoder and shares(policy.device))
        )
        self._between: list[tuple[LlamaDecoder, Graphs]] = []
        self._pace = ConcurrencyLimit(policy.concurrent_tokens, config.max_completion_length)
        # A CPU is not waited for, so the end of a completion is noticed at once.
        self._block = 1 if policy.device.type == "cpu" else BLOCK
        on_cuda = graphs and policy.device.type == "cuda"
        may_replay = on_cuda and self._decoder_type is LlamaDecoder
        self.replays = may_replay and policy.works("CUDA graphs", partial(replays, policy))
        if config.max_completion_length >= policy.context_length:
            raise UserError(
                f"max_completion_length {config.max_completion_length} leaves no room for a "
                f"prompt: the model's context is {policy.context_length} tokens; make it smaller"
            )

    @property
    def decoder_name(self) -> str:
        return self._decoder_type.__name__

    def open(self, *, goes_on: bool) -> Writes:
        """See interfaces.Generator. Where turns follow, one decoder takes them all, so it knows the
        contexts of the turn before.
        """
        if goes_on:
            return self._begin(self._turn_stops, goes_on=True).completed
        return self.generate

    def generate(
        self, prompts: Contexts, group_size: int, stream: str, first: int = 0
    ) -> list[Completions | Skipped]:
        """`group_size` episodes of one turn for each prompt. A prompt longer than the context
        allows is skipped. `first`: see `Writes`.
        """
        writing = self._begin(self._stops)
        if self._persists and self._between:
            writing.decoder, writing.graphs = self._between.pop()
            with without_gradients(self._policy):
                writing.decoder.renew()
        groups = writing.completed(prompts, group_size, stream, first)
        if self._persists and isinstance(writing.decoder, LlamaDecoder):
            keeps = self._policy.keeps_decoder
            writing.decoder.rest(keep=keeps)
            self._between.append((writing.decoder, writing.graphs if keeps else Graphs()))
        return groups

    def fitting(self, contexts: Contexts) -> tuple[list[list[int]], list[int]]:
        """See `fitting`."""
        return fitting(self._policy, self._config, contexts)

    def encode_observations(self, observations: Sequence[str], last: int) -> list[int]:
        """See interfaces.Generator."""
        return self._policy.encode_observations(observations, last)

    def rest(self) -> None:
        """Forget what only saves the next round time: it makes a decoder again."""
        self._between.clear()

    def close(self) -> None:
        """See interfaces.Generator: there is nothing to let go of."""

    def _begin(self, stops: Stops, goes_on: bool = False) -> "Decoding":
        return Decoding(
            self._policy,
            self._config,
            self._decoder_type,
            stops,
            self._pace,
            self._block,
            self.replays,
            self._beside,
            goes_on,
        )


@dataclass(slots=True)
class Decoding:
    """The completions of one call, or of all turns of some episodes.

    It holds the decoder, which has a copy of the weights: so the weights must not change while it
    is in use, and the copy is freed with it, unless the next round continues with the decoder.
    """

    policy: Policy
    config: GenerationConfig
    decoder_type: type[Decoder]
    stops: Stops
    pace: ConcurrencyLimit
    block: int  # tokens between two looks at what has ended
    replays: bool  # steps are replayed
    beside: bool  # adapters stay beside the base in the decoder
    goes_on: bool  # the next contexts begin with those before, and what was written after them
    decoder: Decoder | None = None
    graphs: Graphs = field(default_factory=Graphs)

    def completed(
        self, contexts: Contexts, group_size: int, stream: str, first: int = 0
    ) -> list[Completions | Skipped]:
        """`group_size` completions of each context, which is a prompt or the ids before a turn. One
        that is longer than the model's context allows is skipped. `first`: see `Writes`.
        """
        encoded, fits = fitting(self.policy, self.config, contexts)
        results: list[Completions | Skipped] = [TOO_LONG] * len(encoded)
        most = len(fits) if self.policy.base is None else PROMPTS
        done = 0
        while done < len(fits):
            waiting = [encoded[i] for i in fits[done : done + most]]
            rows = self.pace.admits(fmean(map(len, waiting)))
            prompts = waiting[: max(1, rows // group_size)]
            groups = self._sample(prompts, group_size, stream, first + done * group_size)
            self.pace.saw([len(sampled.ids) for group in groups for sampled in group])
            for i, group in paired(fits[done : done + len(prompts)], groups):
                results[i] = self._finished(encoded[i], group) if group else OUT_OF_MEMORY
            done += len(prompts)
        return results

    def _sample(
        self, prompts: list[list[int]], group_size: int, stream: str, first: int
    ) -> list[list[Sampled]]:
        """A group per prompt. Where memory is short, samples the prompts in two halves, one after
        the other, with the same text; a prompt too large alone gets an empty group. `first`: number
        of the first row in the stream.
        """
        try:
            return attempt(
                lambda: self._decode(prompts, group_size, stream, first), "in generating"
            )
        except OutOfMemory:
            self.decoder = None  # frees what it holds
            if len(prompts) == 1:
                return [[]]
        half = len(prompts) // 2
        # The next round does not try more again: that would fail after half of the decoding
        self.pace.ran_out(half * group_size, fmean(map(len, prompts)))
        later = self._sample(prompts[half:], group_size, stream, first + half * group_size)
        return self._sample(prompts[:half], group_size, stream, first) + later

    def _finished(self, prompt: list[int], group: list[Sampled]) -> Completions | Skipped:
        episodes = self.stops.completions([sampled.ids for sampled in group])
        if isinstance(episodes, Skipped):
            return episodes
        version = self.policy.version
        samples = []
        for episode, sampled in paired(episodes, group):
            versions = (version,) * len(sampled.ids)
            tokens = Tokens(tuple(sampled.ids), tuple(sampled.log_probs), versions)
            samples.append(Sample(episode, tokens=tokens))
        return Completions(tuple(prompt), tuple(samples))

    def _decode(
        self, prompts: list[list[int]], group_size: int, stream: str, first: int
    ) -> list[list[Sampled]]:
        with without_gradients(self.policy):
            return self._decoded(prompts, group_size, stream, first)

    def _decoded(
        self, prompts: list[list[int]], group_size: int, stream: str, first: int
    ) -> list[list[Sampled]]:
        policy, limit = self.policy, self.config.max_completion_length
        rows = len(prompts) * group_size
        drawn_on = exact_device(policy.device)
        uniform = to_device(uniforms(stream, limit, first + rows)[:, first:], drawn_on)
        eos = to_device(sorted(policy.eos_ids), policy.device)
        drawing = Drawing(self.config.temperature, eos, Astray(self.config.stop_below))
        written = TokenBuffer.start(limit, rows, policy.pad_id, policy.device)
        active = torch.arange(rows).view(len(prompts), group_size)  # row of each slot
        # The decoder has a copy of the weights
        made = self.decoder = self.decoder or self._made()
        row = to_device(active.flatten(), policy.device)
        column = to_device(active.flatten(), drawn_on)  # of `uniform`, for each slot
        made.again = self.goes_on
        decoder = Distinct(made) if self.block == 1 else made
        work: Work = self.graphs if self.replays else block
        at = Slots.start(rows, policy.device)
        so_far: list[list[int]] = [[] for _ in range(rows)]
        with policy.casts_held():
            logits: Tensor | None = decoder.prefill(prompts, group_size, limit)
            while True:
                step, before = written.steps, at.running
                if logits is not None:  # of a prefill
                    at, taken = drawing(logits, uniform[step, column], at)
                    tokens, log_probs = at.token[None], taken[None]
                else:
                    count = min(self.block, limit - step)
                    decoder.reserve(count)
                    at, tokens, log_probs = work(
                        decoder, drawing, uniform[step : step + count, column], at
                    )
                if self.stops:
                    at = self._stopped(so_far, row, before, tokens, at)
                written.add(row, tokens, log_probs, at.length)
                running = on_host(at.running).view_as(active)
                if written.steps == limit or not running.any():
                    break
                logits = None
                if running.float().mean() <= COMPACT_BELOW:
                    slots = still_running(running, by_halves=self.replays)
                    if self.replays and slots.numel() == running.numel():
                        continue
                    active = active.flatten()[slots]
                    decoder.keep(to_device(slots, policy.device))
                    at = at.only(to_device(slots.flatten(), policy.device))
                    row = to_device(active.flatten(), policy.device)
                    column = to_device(active.flatten(), drawn_on)
        return written.split(group_size)

    def _made(self) -> Decoder:
        """A decoder with the present weights."""
        if self.decoder_type is LlamaDecoder:
            return LlamaDecoder(self.policy, merged=not self.beside)
        return self.decoder_type(self.policy)

    def _stopped(
        self, so_far: list[list[int]], row: Tensor, running: Tensor, tokens: Tensor, at: Slots
    ) -> Slots:
        """The slots, stopped where a completion has reached one of the strings that end it.

        Args:
            so_far: tokens of each row before this block; those of the block are added.
            running: [slots], before the block.
            tokens: [steps, slots] of the block.
        """
        length, ran, rows = (on_host(part).tolist() for part in (at.length, running, row))
        stopped, columns = [False] * len(rows), on_host(tokens).T.tolist()
        for slot in (slot for slot, one in enumerate(ran) if one):
            ids = so_far[rows[slot]]
            for token in columns[slot][: length[slot] - len(ids)]:
                ids.append(token)
                if self.stops.end(ids):
                    stopped[slot], length[slot] = True, len(ids)
                    break
        over = to_device(stopped, row.device)
        return replace(at, length=to_device(length, row.device), running=at.running & ~over)


def fitting(
    policy: Policy, config: GenerationConfig, contexts: Contexts
) -> tuple[list[list[int]], list[int]]:
    """The ids of each context, and the indices of those behind which there is room for a
    completion. Only these have rows in the stream of uniform numbers.
    """
    encoded = [_ids_of(policy, context) for context in contexts]
    room = policy.context_length - config.max_completion_length
    return encoded, [i for i, ids in enumerate(encoded) if 0 < len(ids) <= room]


def _ids_of(policy: Policy, context: str | Sequence[int]) -> list[int]:
    return policy.encode_prompt(context) if isinstance(context, str) else list(context)


def _halved(whole: int, needed: int) -> int:
    """The smallest half, fourth ... of the whole that is not less than what is needed."""
    while (half := -(-whole // 2)) >= needed and half < whole:
        whole = half
    return whole


def unmerged(policy: Policy, longest: int) -> bool:
    """Whether adapters stay beside the base in the decoder, for completions of so many tokens."""
    if shares(policy.device) or policy.four_bits:  # there is no copy to merge them into
        return policy.has_adapters
    return policy.has_adapters and policy.keeps_decoder and longest <= UNMERGED_UP_TO


def without_gradients(policy: Policy) -> AbstractContextManager[None]:
    """Inside, no gradients are kept. Inference mode is a little faster, but makes autocast cast the
    weights again for every product.
    """
    return torch.inference_mode() if policy.autocast_dtype is None else torch.no_grad()


def choose_decoder(policy: Policy, wanted: str) -> type[Decoder]:
    """The fastest decoder whose logits agree with the model's own full forward, found out once by
    trying.
    """
    candidates: dict[str, list[type[Decoder]]] = {
        "auto": [LlamaDecoder, ModelDecoder],
        "native": [LlamaDecoder],
        "model": [ModelDecoder],
    }
    for candidate in candidates[wanted]:
        if policy.works(f"decoder {candidate.__name__}", partial(agrees, candidate, policy)):
            return candidate
    if wanted == "native":
        raise ValueError(f"our decoder does not know the architecture of {policy.name!r}")
    return RecomputeDecoder


@torch.inference_mode()
def replays(policy: Policy) -> bool | None:
    """Whether replayed steps give the same log-probs as plain steps. None if they fail."""
    vocabulary = policy.model.get_input_embeddings().weight.shape[0]
    prompts = [[7 % vocabulary, 11 % vocabulary, 3 % vocabulary], [5 % vocabulary]]
    no_token = torch.tensor([-1], device=policy.device)  # none ends a completion
    drawing = Drawing(1.0, no_token, Astray(0.0))
    uniform = torch.full((6, 4), 0.5, dtype=torch.float64, device=policy.device)

    def log_probs_by(work: Work) -> Tensor:
        decoder = LlamaDecoder(policy, merged=not unmerged(policy, len(uniform)))
        rounds = []
        for asked in (prompts, prompts[::-1]):  # the second replays what the first has recorded
            start = Slots.start(4, policy.device)
            at, _ = drawing(decoder.prefill(asked, 2, 6), uniform[0], start)
            decoder.reserve(6)
            rounds.append(work(decoder, drawing, uniform, at)[2])
            decoder.rest(keep=True)
        return torch.cat(rounds)

    def both() -> tuple[Tensor, Tensor]:
        return log_probs_by(Graphs()), log_probs_by(block)

    log_probs = probed(both, "in trying CUDA graphs")
    return None if log_probs is None else agreement(*log_probs, COARSE)


def still_running(running: Tensor, *, by_halves: bool = False) -> Tensor:
    """Slots [prompts', group'] of the prompts [prompts, group] that still run, running ones first.

    Prompts with fewer running rows than the fullest are filled up with ended ones, whose tokens are
    never read. `by_halves`: so are both sizes, to a half, a fourth ... of what there was: few sizes
    come up, for each of which a step is recorded.
    """
    group = running.shape[1]
    prompts = running.any(dim=1).nonzero()[:, 0]
    width = int(running.sum(dim=1).max())
    if by_halves:
        ended = (~running.any(dim=1)).nonzero()[:, 0]
        count = _halved(len(running), len(prompts))
        prompts = torch.cat([prompts, ended])[:count].sort()[0]
        width = _halved(group, width)
    running_first = running[prompts].int().argsort(dim=1, descending=True, stable=True)
    return prompts[:, None] * group + running_first[:, :width]
