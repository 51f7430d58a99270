"""Sampling: every prompt is prefilled once, expanded to its group, and all questions of a round decode together.

Rows are kept in slots [prompts, group]. When half of them have ended the others are moved together, so that a few
long completions do not cost what all of them would. Randomness is one uniform number per row and token, sampled ahead
from a named stream: a completion depends on its own draws only, not on who else is in the batch.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import Protocol

import torch
from torch import Tensor

from protocol.limits import MAX_COMPLETION_CHARS
from protocol.messages import Completion
from swarm_node.algorithm.distribution import SamplingRule, log_distribution
from swarm_node.common.errors import UserError
from swarm_node.compute.fast_cpu.llama_decoder import LlamaDecoder
from swarm_node.compute.generation.decoding import ModelDecoder, RecomputeDecoder, agrees
from swarm_node.compute.generation.pacing import Astray, Pace
from swarm_node.compute.memory import OutOfMemory, attempt
from swarm_node.compute.policy import Policy
from swarm_node.compute.ranks import ALONE, Ranks
from swarm_node.rollouts.groups import GeneratedGroup, Skipped, Tokens
from swarm_node.settings import GenerationConfig

COMPACT_BELOW = 0.5  # share of rows still running at which the others are dropped; moving the cache costs about a step


class Decoder(Protocol):
    """Incremental logits for slots [prompts, group], numbered prompt by prompt."""

    def __init__(self, policy: Policy) -> None: ...

    def prefill(self, prompts: Sequence[Sequence[int]], group_size: int, max_new: int) -> Tensor:
        """Logits [prompts * group, vocabulary] of the first new token."""
        ...

    def step(self, tokens: Tensor) -> Tensor:
        """Feed one token per slot, [slots]; logits [slots, vocabulary] of the next."""
        ...

    def keep(self, slots: Tensor) -> None:
        """Go on with these slots only: [prompts', group'] of old slot numbers, a row per prompt."""
        ...


@dataclass(frozen=True, slots=True)
class Sampled:
    """A completion while it is generated: an entry of each list for each token."""

    ids: list[int]
    log_probs: list[float]
    versions: list[int]


class BatchGenerator:
    """Implements interfaces.Generator on a policy's present weights."""

    def __init__(
        self,
        policy: Policy,
        config: GenerationConfig,
        refresh: Callable[[], bool] | None = None,
        ranks: Ranks = ALONE,
    ) -> None:
        """`refresh` is asked before every token: it may put newer weights into `policy`, and says whether it did.
        `ranks` generate together, each for its share of the prompts."""
        self._policy, self._config, self._refresh, self._ranks = policy, config, refresh, ranks
        self._rule = SamplingRule(config.temperature, config.top_p, config.top_k)
        self._decoder_type = choose_decoder(policy, config.decoder)
        self._pace = Pace(config.max_concurrent_tokens, config.max_completion_length)
        if config.max_completion_length >= policy.context_length:
            raise UserError(
                f"max_completion_length {config.max_completion_length} leaves no room for a prompt: "
                f"the model's context is {policy.context_length} tokens"
            )

    @property
    def decoder_name(self) -> str:
        return self._decoder_type.__name__

    def generate(self, prompts: Sequence[str], group_size: int, stream: str) -> list[GeneratedGroup | Skipped]:
        """See interfaces.Generator. A prompt longer than the context allows is skipped."""
        encoded = [self._policy.encode_prompt(prompt) for prompt in prompts]
        room = self._policy.context_length - self._config.max_completion_length
        fits = [i for i, ids in enumerate(encoded) if 0 < len(ids) <= room]
        found: dict[int, GeneratedGroup | Skipped] = {}
        mine = self._ranks.share(len(fits))
        done = mine.start
        while done < mine.stop:
            rest = [encoded[i] for i in fits[done : mine.stop]]
            some = rest[: max(1, self._pace.admits(fmean(map(len, rest))) // group_size)]
            sampled = self._sample(some, group_size, stream, done * group_size)
            self._pace.saw([len(one.ids) for group in sampled for one in group])
            for i, group in zip(fits[done : done + len(some)], sampled, strict=True):
                found[i] = self._finished(group) if group else Skipped("out of device memory")
            done += len(some)
        of_all = {i: group for part in self._ranks.gather(found) for i, group in part.items()}
        return [of_all.get(i, Skipped("prompt longer than the context")) for i in range(len(prompts))]

    def close(self) -> None:
        """See interfaces.Generator: there is nothing to let go of."""

    def _sample(self, prompts: list[list[int]], group_size: int, stream: str, first: int) -> list[list[Sampled]]:
        """A group per prompt; where memory is short the prompts in two halves, one after the other, with the same text,
        and an empty group where even one is too much. `first` is the number of the first row in the stream."""
        try:
            return attempt(lambda: self._decode(prompts, group_size, stream, first), "in generating")
        except OutOfMemory:
            if len(prompts) == 1:
                return [[]]
        half = len(prompts) // 2
        later = self._sample(prompts[half:], group_size, stream, first + half * group_size)
        return self._sample(prompts[:half], group_size, stream, first) + later

    def _finished(self, group: list[Sampled]) -> GeneratedGroup | Skipped:
        # What ends a completion is a flag, not text, also where the tokenizer does not count it as special.
        said = [sampled.ids[:-1] if sampled.ids[-1] in self._policy.eos_ids else sampled.ids for sampled in group]
        texts = self._policy.decode(said)
        if max(map(len, texts)) > MAX_COMPLETION_CHARS:
            return Skipped("completion longer than the protocol allows")
        ended = [sampled.ids[-1] in self._policy.eos_ids for sampled in group]
        return GeneratedGroup(
            tuple(Completion(text=text, ended=end) for text, end in zip(texts, ended, strict=True)),
            tuple(Tokens(tuple(sampled.ids), tuple(sampled.log_probs), tuple(sampled.versions)) for sampled in group),
        )

    @torch.inference_mode()
    def _decode(self, prompts: list[list[int]], group_size: int, stream: str, first: int) -> list[list[Sampled]]:
        policy, limit = self._policy, self._config.max_completion_length
        rows = len(prompts) * group_size
        uniform = uniforms(stream, limit, first + rows)[:, first:].to(policy.device)
        eos = torch.tensor(sorted(policy.eos_ids), device=policy.device)
        ids = torch.full((limit, rows), policy.pad_id, device=policy.device)
        log_probs = torch.zeros(limit, rows, device=policy.device)
        versions: list[int] = []  # of the weights that generated each step
        lengths = torch.full((rows,), limit, device=policy.device)
        astray = Astray(self._config.stop_below, self._config.stop_memory, rows, policy.device)
        active = torch.arange(rows, device=policy.device).view(len(prompts), group_size)  # row of each slot
        decoder = self._decoder_type(policy)
        logits = decoder.prefill(prompts, group_size, limit)
        for step in range(limit):
            versions.append(policy.version)
            row = active.flatten()
            log_p = log_distribution(logits, self._rule)
            token = inverse_cdf(log_p, uniform[step, row])
            ids[step, row] = token
            log_probs[step, row] = log_p.gather(1, token[:, None])[:, 0]
            over = torch.isin(token, eos) | astray.take(row, log_probs[step, row])
            lengths[row[over & (lengths[row] == limit)]] = step + 1
            running = (lengths[row] == limit).view_as(active)
            if step + 1 == limit or not running.any():
                break
            if self._refresh is not None and self._refresh():
                # The cache holds what the old weights made of the text so far: all of it is computed again. Prompts
                # are no longer shared, since each row's completion follows.
                active = row[running.flatten()][:, None]
                so_far = [prompts[r // group_size] + ids[: step + 1, r].tolist() for r in active[:, 0].tolist()]
                decoder = self._decoder_type(policy)
                logits = decoder.prefill(so_far, 1, limit - step - 1)
                continue
            if running.float().mean() <= COMPACT_BELOW:
                slots = still_running(running)
                decoder.keep(slots)
                active, token = row[slots], token[slots.flatten()]
            logits = decoder.step(token)
        return _split(ids, log_probs, lengths, versions, group_size)


def choose_decoder(policy: Policy, wanted: str) -> type[Decoder]:
    """The fastest decoder whose logits agree with the model's own full forward, found out once by trying."""
    candidates: dict[str, list[type[Decoder]]] = {
        "auto": [LlamaDecoder, ModelDecoder],
        "native": [LlamaDecoder],
        "model": [ModelDecoder],
    }
    for candidate in candidates[wanted]:
        if policy.works(f"decoder {candidate.__name__}", partial(agrees, candidate, policy)):
            return candidate
    if wanted == "native":
        raise UserError(
            f"decoder 'native' does not know the architecture of {policy.name!r}; use --generation.decoder auto"
        )
    return RecomputeDecoder


def uniforms(stream: str, steps: int, rows: int) -> Tensor:
    """[steps, rows] float64 in [0, 1), a row's numbers do not depend on how many rows follow it."""
    seed = int.from_bytes(hashlib.sha256(stream.encode()).digest()[:8], "big") >> 1
    return torch.rand(rows, steps, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).T.contiguous()


def inverse_cdf(log_probs: Tensor, uniform: Tensor) -> Tensor:
    """Sample [rows] from [rows, vocabulary] with one uniform number each.

    float64, since the sum over a large vocabulary loses digits; the draw is scaled by the sum itself, so the token
    found always has a positive probability.
    """
    cumulative = log_probs.double().exp().cumsum(dim=-1)
    total = cumulative[:, -1:]
    point = (uniform[:, None] * total).clamp_max(torch.nextafter(total, torch.zeros_like(total)))
    return torch.searchsorted(cumulative, point, right=True)[:, 0]


def still_running(running: Tensor) -> Tensor:
    """Slots [prompts', group'] of the prompts [prompts, group] that still run, running ones first.

    Prompts with fewer running rows than the fullest are filled up with ended ones, whose tokens nobody reads.
    """
    group = running.shape[1]
    prompts = running.any(dim=1).nonzero()[:, 0]
    width = int(running.sum(dim=1).max())
    order = running[prompts].int().argsort(dim=1, descending=True, stable=True)[:, :width]
    return prompts[:, None] * group + order


def _split(
    ids: Tensor, log_probs: Tensor, lengths: Tensor, versions: list[int], group_size: int
) -> list[list[Sampled]]:
    id_rows, log_prob_rows, ends = ids.T.tolist(), log_probs.T.tolist(), lengths.tolist()
    sampled = [Sampled(i[:n], p[:n], versions[:n]) for i, p, n in zip(id_rows, log_prob_rows, ends, strict=True)]
    return [sampled[k : k + group_size] for k in range(0, len(sampled), group_size)]
