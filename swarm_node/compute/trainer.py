"""One update of the policy from scored groups: GRPO with recorded log-probs, micro-batched by a token budget.

Old log-probs are those of the policy that wrote the text for own groups, and of this policy when the group is admitted
to the training set for groups of others, whose author's probabilities are unknown and would not be comparable.
"""

import copy
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from itertools import islice
from math import isfinite

import torch
from torch import Tensor

from swarm_node.algorithm import rows
from swarm_node.algorithm.advantages import group_advantages
from swarm_node.algorithm.distribution import SamplingRule, log_distribution, log_probs_of
from swarm_node.algorithm.loss import StepSize, clipped_loss, kl_penalty, token_weight
from swarm_node.compute.policy import Policy
from swarm_node.config import GenerationConfig, TrainingConfig
from swarm_node.errors import UserError
from swarm_node.interfaces import StepReport
from swarm_node.rollouts.groups import ScoredGroup

CPU_BUDGET, GPU_BUDGET = 2048, 16384  # tokens of a micro-batch


@dataclass(frozen=True, slots=True)
class Example:
    """A group, or one completion of it, as token ids. Completions without a token, or masked out, are not in it."""

    row: rows.Row
    advantages: list[float]  # one per completion
    old_log_probs: list[list[float] | None]  # one per completion; None until this policy has computed them
    foreign: list[bool]  # one per completion: written by a peer

    def pieces(self, columns: int) -> list["Example"]:
        """The same in rows of at most so many columns; 0 gives each completion its own row, the padded layout."""
        return [self.only(piece) for piece in rows.split(self.row, columns)]

    def only(self, chosen: Sequence[int]) -> "Example":
        return Example(
            rows.Row(self.row.prompt, [self.row.completions[i] for i in chosen]),
            [self.advantages[i] for i in chosen],
            [self.old_log_probs[i] for i in chosen],
            [self.foreign[i] for i in chosen],
        )


@dataclass(slots=True)
class Totals:
    """Sums over the micro-batches of one update."""

    loss: float = 0.0
    grad_norm: float = 0.0
    steps: int = 0
    tokens: int = 0
    dropped: int = 0
    ratio: float = 0.0
    clipped: int = 0
    entropy: float = 0.0
    skipped: dict[str, int] = field(default_factory=dict)

    def skip(self, reason: str) -> None:
        self.skipped[reason] = self.skipped.get(reason, 0) + 1


@dataclass(frozen=True, slots=True)
class Trust:
    """Which text of others may move the policy."""

    floor: float = 0.0  # tokens of others that this policy gives a smaller probability are dropped from the loss
    negatives: bool = True  # False drops completions of others with a negative advantage, which no clip ever stops


ALL = Trust()


class GrpoTrainer:
    """Implements interfaces.Trainer. Owns the optimiser; the weights are the policy's."""

    def __init__(
        self,
        policy: Policy,
        config: TrainingConfig,
        generation: GenerationConfig,
        reference: Policy | None = None,
        trust: Trust = ALL,
    ) -> None:
        """`reference` is the initial policy, for the KL penalty; None takes `policy` as it is now."""
        self._policy, self._config, self._trust = policy, config, trust
        self._rule = SamplingRule(generation.temperature, generation.top_p, generation.top_k)
        self._max_completion_length = generation.max_completion_length
        self._parameters = [p for p in policy.model.parameters() if p.requires_grad]
        self.optimizer = torch.optim.AdamW(
            self._parameters,
            lr=config.learning_rate,
            betas=config.adam_betas,
            weight_decay=config.weight_decay,
            fused=True,
        )
        self.steps = 0  # optimiser steps taken in this policy's life
        self.packed = _choose_layout(policy, config.layout)
        self._reference = (reference or _frozen(policy)) if config.beta else None
        self._token_budget = config.token_budget or (CPU_BUDGET if policy.device.type == "cpu" else GPU_BUDGET)

    def update(self, groups: Sequence[ScoredGroup]) -> StepReport:
        """See interfaces.Trainer. Groups without signal cost nothing, and without any no step is taken."""
        totals = Totals()
        examples = [e for g in groups if g.has_signal and (e := self._example(g, totals)) is not None]
        if not examples:
            return StepReport(skipped=totals.skipped)
        several_steps = self._config.num_iterations * self._config.minibatches > 1
        if several_steps:
            examples = [self._with_old_log_probs(example) for example in examples]
        for _ in range(self._config.num_iterations):
            for part in range(self._config.minibatches):
                minibatch = examples[part :: self._config.minibatches]
                if minibatch:
                    self._step(minibatch, totals)
        return self._report(totals, len(examples))

    def _report(self, totals: Totals, trained_groups: int) -> StepReport:
        steps, tokens = max(1, totals.steps), max(1, totals.tokens)
        return StepReport(
            optimizer_steps=totals.steps,
            trained_tokens=totals.tokens - totals.dropped if totals.steps else 0,
            dropped_tokens=totals.dropped,
            trained_groups=trained_groups,
            loss=totals.loss / steps,
            grad_norm=totals.grad_norm / steps,
            learning_rate=float(self.optimizer.param_groups[0]["lr"]),
            ratio_mean=totals.ratio / tokens,
            clip_fraction=totals.clipped / tokens,
            entropy=totals.entropy / tokens,
            skipped=totals.skipped,
        )

    def _example(self, group: ScoredGroup, totals: Totals) -> Example | None:
        """Token ids of a group: the very ids generated for an own one, this tokenizer's for text of others."""
        advantages = group_advantages(group.rewards, self._config.scale_rewards)
        written = group.own_tokens
        completions = [
            self._policy.encode_completion(completion) if tokens is None else list(tokens.ids)
            for completion, tokens in zip(group.group.completions, written, strict=True)
        ]
        keep = [
            i
            for i, (ids, completion) in enumerate(zip(completions, group.group.completions, strict=True))
            if ids
            and (completion.ended or not self._config.mask_truncated_completions)
            and (self._trust.negatives or written[i] is not None or advantages[i] > 0)
        ]
        prompt = self._policy.encode_prompt(group.prompt)
        if not keep or not prompt:
            totals.skip("no trainable completion")
            return None
        if len(prompt) + max(len(completions[i]) for i in keep) > self._policy.context_length:
            totals.skip("longer than the context")
            return None
        old = [None if tokens is None else list(tokens.log_probs) for tokens in written]
        foreign = [tokens is None for tokens in written]
        return Example(rows.Row(prompt, completions), advantages, old, foreign).only(keep)

    def _rows(self, examples: list[Example]) -> list[Example]:
        return [piece for example in examples for piece in example.pieces(self._columns(example))]

    def _columns(self, example: Example) -> int:
        widest = max(rows.MAX_PACKED, 2 * len(example.row.prompt))
        return min(widest, self._token_budget) if self.packed else 0

    def _step(self, examples: list[Example], totals: Totals) -> None:
        """One optimiser step over `examples`; gradients of micro-batches add up."""
        lengths = [len(ids) for example in examples for ids in example.row.completions]
        size = StepSize(len(lengths), sum(lengths))
        parts = self._rows(examples)
        loss = 0.0
        for indices in rows.micro_batches([part.row for part in parts], self._token_budget):
            loss += self._backward([parts[i] for i in indices], size, totals)
        grad_norm = float(torch.nn.utils.clip_grad_norm_(self._parameters, self._config.max_grad_norm))
        if not isfinite(grad_norm):
            totals.skip("gradient not finite")
        elif grad_norm > 0.0:
            self._set_learning_rate()
            self.optimizer.step()
            self.steps += 1
            totals.steps += 1
            totals.loss += loss
            totals.grad_norm += grad_norm
        self.optimizer.zero_grad(set_to_none=True)

    def _backward(self, parts: list[Example], size: StepSize, totals: Totals) -> float:
        """Forward and backward of one micro-batch; returns its share of the loss."""
        config = self._config
        batch = rows.build([part.row for part in parts], self._policy.pad_id, self._policy.device)
        distribution = log_distribution(self._policy.logits(batch), self._rule, batch.target)
        log_probs = distribution.gather(-1, batch.target[:, None])[:, 0]
        old = _recorded(parts, log_probs.detach())
        advantages, weights = self._per_token(parts, size, log_probs)
        dropped = self._distrusted(parts, old)
        advantages = advantages.masked_fill(dropped, 0.0)
        result = clipped_loss(
            log_probs, old, advantages, weights, epsilon=config.epsilon, epsilon_high=config.epsilon_high
        )
        loss = result.loss
        if self._reference is not None:
            loss = loss + config.beta * kl_penalty(log_probs, self._reference_log_probs(batch), weights)
        loss.backward()  # type: ignore[no-untyped-call]
        with torch.no_grad():
            totals.tokens += len(log_probs)
            totals.dropped += int(dropped.sum())
            totals.ratio += float(result.ratio.sum())
            totals.clipped += int(result.clipped.sum())
            totals.entropy -= float(torch.special.xlogy(p := distribution.exp(), p).sum())
        return float(loss.detach())

    def _per_token(self, parts: list[Example], size: StepSize, like: Tensor) -> tuple[Tensor, Tensor]:
        """Advantage and weight of every token, [tokens] each."""
        lengths = [len(ids) for part in parts for ids in part.row.completions]
        weights = [token_weight(n, size, self._config.loss_type, self._max_completion_length) for n in lengths]
        advantages = [advantage for part in parts for advantage in part.advantages]
        counts = torch.tensor(lengths, device=like.device)
        spread = torch.tensor([advantages, weights], dtype=like.dtype, device=like.device)
        advantage, weight = spread.repeat_interleave(counts, dim=1)
        return advantage, weight

    def _distrusted(self, parts: list[Example], old: Tensor) -> Tensor:
        """bool [tokens]: of others, and less likely than the floor when the text was admitted."""
        counts = torch.tensor([len(ids) for part in parts for ids in part.row.completions], device=old.device)
        foreign = torch.tensor([known for part in parts for known in part.foreign], device=old.device)
        return foreign.repeat_interleave(counts) & (old.exp() < self._trust.floor)

    def _with_old_log_probs(self, example: Example) -> Example:
        """Of others: with log-probs of the present policy, before the first of several steps moves it."""
        if None not in example.old_log_probs:
            return example
        values: list[list[float] | None] = []
        for part in self._rows([example]):
            batch = rows.build([part.row], self._policy.pad_id, self._policy.device)
            flat = self._log_probs(self._policy, batch)
            ends = iter(flat.tolist())
            values += [list(islice(ends, len(ids))) for ids in part.row.completions]
        old = [own or now for own, now in zip(example.old_log_probs, values, strict=True)]
        return replace(example, old_log_probs=old)

    def _reference_log_probs(self, batch: rows.RowBatch) -> Tensor:
        assert self._reference is not None
        with getattr(self._reference.model, "disable_adapter", nullcontext)():
            return self._log_probs(self._reference, batch)

    @torch.no_grad()
    def _log_probs(self, policy: Policy, batch: rows.RowBatch) -> Tensor:
        return log_probs_of(policy.logits(batch), batch.target, self._rule)

    def _set_learning_rate(self) -> None:
        """Linear warm-up, then constant."""
        warm = min(1.0, (self.steps + 1) / self._config.warmup_steps) if self._config.warmup_steps else 1.0
        for group in self.optimizer.param_groups:
            group["lr"] = self._config.learning_rate * warm


def _recorded(parts: list[Example], current: Tensor) -> Tensor:
    """[tokens] recorded log-probs; where there are none, `current`: the first step on text of others has ratio 1."""
    unknown = float("nan")
    values = [
        value
        for part in parts
        for ids, old in zip(part.row.completions, part.old_log_probs, strict=True)
        for value in (old or [unknown] * len(ids))
    ]
    old = torch.tensor(values, dtype=current.dtype, device=current.device)
    return torch.where(old.isnan(), current, old)


def _choose_layout(policy: Policy, wanted: str) -> bool:
    packs = wanted != "padded" and policy.takes_packed_rows()
    if wanted == "packed" and not packs:
        raise UserError(f"model {policy.name!r} cannot take packed rows; use --training.layout auto")
    return packs


def _frozen(policy: Policy) -> Policy:
    """A copy that stays as it is. Under LoRA the initial policy is the same model with its adapters off."""
    if hasattr(policy.model, "disable_adapter"):
        return policy
    model = copy.deepcopy(policy.model).requires_grad_(False)
    return Policy(model, policy.tokenizer, policy.device, policy.autocast_dtype, policy.name)
