"""One update of the policy from scored groups: GRPO with recorded log-probs, micro-batched by a token budget.

Behaviour log-probs are those of the policy that generated the text for local groups, and of this policy when the group
is admitted to the training set for external groups, whose author's probabilities are unknown and would not be
comparable.
"""

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import partial
from itertools import islice
from math import isfinite
from typing import TypeVar

import torch
from torch import Tensor

from swarm_node.common.errors import UserError
from swarm_node.policy import rows, tree
from swarm_node.policy.batching import dynamic_batches
from swarm_node.policy.device import OutOfMemory, attempt, to_device
from swarm_node.policy.examples import Example, flat_values
from swarm_node.policy.log_probs import SamplingRule
from swarm_node.policy.policy import Batch, Packing, Policy
from swarm_node.policy.ranks import ALONE, Ranks
from swarm_node.policy.recompute import blocks_of
from swarm_node.rollouts.groups import ScoredGroup, Tokens
from swarm_node.rollouts.reports import StepReport
from swarm_node.settings import GenerationConfig, TrainingConfig
from swarm_node.training.advantages import Advantages, group_advantages
from swarm_node.training.objectives import (
    DEFAULT_IMPORTANCE,
    WITHOUT_PROXIMAL,
    Bounds,
    Objective,
    StepSize,
    Terms,
    clipped,
    kl_penalty,
    token_weight,
)
from swarm_node.training.optimisers import build_optimizer, state_tensors, take_step
from swarm_node.training.totals import Totals

CPU_BUDGET, GPU_BUDGET = 4096, 16384  # tokens of a micro-batch
SMALLEST_BUDGET = 64  # where even this does not fit into memory, smaller micro-batches are no help

T = TypeVar("T")
Batching = Callable[..., Iterable[list[int]]]  # rows, token budget, pads: indices of rows by micro-batch
BATCHINGS: Mapping[str, Batching] = {"tight": rows.micro_batches, "dynamic": dynamic_batches}


class NothingFits(Exception):
    """Not even the smallest micro-batch fits into memory."""


class GrpoTrainer:
    """Implements interfaces.Trainer. Owns the optimiser; the weights are the policy's."""

    def __init__(
        self,
        policy: Policy,
        config: TrainingConfig,
        generation: GenerationConfig,
        reference: Policy | None = None,
        *,
        objective: Objective = clipped,
        advantages: Advantages = group_advantages,
        ranks: Ranks = ALONE,
    ) -> None:
        """
        Args:
            reference: the initial policy, for the KL penalty; None takes `policy` as it is now.
            advantages: from the rewards of a group.
            ranks: those that make the same update together, each the gradient of its share of the rows.
        """
        self._policy, self._config, self._ranks = policy, config, ranks
        self._objective, self._advantages = objective, advantages
        importance = config.importance_limit or DEFAULT_IMPORTANCE.get(config.objective, Bounds().importance)
        self._bounds = Bounds(config.epsilon, config.epsilon_high, importance, config.beyond_limit)
        self._rule = SamplingRule(generation.temperature, generation.top_p, generation.top_k)
        self._max_completion_length = generation.max_completion_length
        self.parameters = [p for p in policy.model.parameters() if p.requires_grad]
        self.stepped = ranks.kept(self.parameters)  # by this rank; the optimiser has the state of these
        self.optimizer = build_optimizer(self.stepped, config)
        self.updating = False  # weights are being changed; stays so where an update was cut off
        self.steps = 0  # optimiser steps taken in this policy's life
        self.packing = _choose_packing(policy, config.layout)
        policy.checkpointing = config.gradient_checkpointing == "on"
        self._reference = (reference or _frozen(policy)) if config.beta else None
        self._token_budget = config.token_budget or (CPU_BUDGET if policy.device.type == "cpu" else GPU_BUDGET)

    @property
    def policy(self) -> Policy:
        return self._policy

    def update(self, groups: Sequence[ScoredGroup]) -> StepReport:
        """See interfaces.Trainer. Uninformative groups cost nothing, and without any no step is taken."""
        self._ranks.tell("update", list(groups))
        totals, examples = Totals(), []
        try:
            examples = [e for g in groups if g.informative and (e := self._example(g, totals)) is not None]
            if examples:
                self.updating = True
                self._steps(examples, totals)
        except NothingFits:
            totals.skip("out of device memory")
        self.updating = False
        self._policy.version += 1  # also without a step: a version is a batch consumed
        return self._report(totals, len(examples)) if examples else StepReport(skipped=totals.skipped)

    def optimizer_tensors(self) -> dict[str, Tensor]:
        """The state of all ranks by "INDEX.NAME", in memory of the host."""
        return self._ranks.whole(state_tensors(self.optimizer, self.parameters))

    def _steps(self, examples: list[Example], totals: Totals) -> None:
        several_steps = self._config.num_iterations * self._config.minibatches > 1
        if several_steps:
            examples = [self._anchored(example, totals) for example in examples]
        for _ in range(self._config.num_iterations):
            for part in range(self._config.minibatches):
                minibatch = examples[part :: self._config.minibatches]
                if minibatch:
                    self._step(minibatch, totals)

    def _report(self, totals: Totals, trained_groups: int) -> StepReport:
        steps, tokens = max(1, totals.steps), max(1, totals.tokens)
        return StepReport(
            optimizer_steps=totals.steps,
            trained_tokens=totals.tokens if totals.steps else 0,
            trained_groups=trained_groups,
            loss=totals.loss / steps,
            grad_norm=totals.grad_norm / steps,
            learning_rate=float(self.optimizer.param_groups[0]["lr"]),
            ratio_mean=totals.ratio / tokens,
            clip_fraction=totals.clipped / tokens,
            entropy=totals.entropy / tokens,
            staleness=totals.staleness / max(1, totals.local_tokens),
            mismatch_mean=totals.mismatch.mean,
            mismatch_max=totals.mismatch.largest,
            mismatch_kl=totals.mismatch.kl,
            halvings=totals.halvings,
            skipped=totals.skipped,
        )

    def _example(self, group: ScoredGroup, totals: Totals) -> Example | None:
        """Token ids of a group: the very ids that were generated for a local one, this tokenizer's for an external
        one."""
        advantages = self._advantages(group.rewards)
        written = group.local_tokens
        completions = [
            self._policy.encode_completion(completion) if tokens is None else list(tokens.ids)
            for completion, tokens in zip(group.group.completions, written, strict=True)
        ]
        keep = [
            i
            for i, (ids, completion) in enumerate(zip(completions, group.group.completions, strict=True))
            if ids and (completion.ended or not self._config.mask_truncated_completions)
        ]
        prompt = self._policy.encode_prompt(group.prompt)
        if not keep or not prompt:
            totals.skip("no trainable completion")
            return None
        if len(prompt) + max(len(completions[i]) for i in keep) > self._policy.context_length:
            totals.skip("longer than the context")
            return None
        return Example(
            rows.Row(prompt, completions),
            advantages,
            external=[tokens is None for tokens in written],
            behaviour=[None if tokens is None else list(tokens.log_probs) for tokens in written],
            proximal=[None] * len(written),
            staleness=[None if tokens is None else self._staleness(tokens) for tokens in written],
        ).only(keep)

    def _staleness(self, tokens: Tokens) -> list[float]:
        now = self._policy.version
        return [float(now - version) for version in tokens.versions] or [0.0] * len(tokens.ids)

    def _rows(self, examples: list[Example]) -> list[Example]:
        return [piece for example in examples for piece in example.pieces(self._columns(example))]

    def _columns(self, example: Example) -> int:
        """Of a row at most; a mask is kept small, since it grows with their square."""
        if self.packing is None:
            return 0
        widest = max(rows.MAX_PACKED, 2 * len(example.row.prompt))
        return min(widest, self._token_budget) if self.packing is Packing.MASK else self._token_budget

    def _build(self, parts: Sequence[Example]) -> Batch:
        """Model input of a micro-batch."""
        policy, packed = self._policy, [part.row for part in parts]
        if self._end_to_end:
            return tree.build(packed, policy.device)
        return rows.build(packed, policy.pad_id, policy.device)

    @property
    def _end_to_end(self) -> bool:
        """Whether rows lie end to end, without pads."""
        return self.packing in (Packing.FLEX, Packing.NATIVE, Packing.BLOCKS)

    def _step(self, examples: list[Example], totals: Totals) -> None:
        """One optimiser step over `examples`; gradients of micro-batches add up."""
        lengths = [len(ids) for example in examples for ids in example.row.completions]
        size = StepSize(len(lengths), sum(lengths))
        loss = self._gradient(examples, size, totals)
        grad_norm = float(torch.nn.utils.clip_grad_norm_(self.parameters, self._config.max_grad_norm))
        if not isfinite(grad_norm):
            totals.skip("gradient not finite")
        elif grad_norm > 0.0:
            self._set_learning_rate()
            attempt(partial(take_step, self.optimizer, self.steps), "in the optimiser's step")
            self._ranks.spread(self.parameters)
            self._policy.precision.weights_changed()
            self.steps += 1
            totals.steps += 1
            totals.loss += loss
            totals.grad_norm += grad_norm
        self._policy.model.zero_grad()  # not the optimiser's: it may have a share only

    def _gradient(self, examples: list[Example], size: StepSize, totals: Totals) -> float:
        """Gradients of all micro-batches of all ranks, and the loss."""

        def work() -> tuple[float, Totals]:
            rows_of_all, counted = self._rows(examples), Totals(steps=totals.steps)
            parts = [rows_of_all[i] for i in self._ranks.dealt([part.row.length for part in rows_of_all])]
            packed = [part.row for part in parts]
            batches = BATCHINGS[self._config.micro_batches](packed, self._token_budget, pads=not self._end_to_end)
            return sum(self._backward([parts[i] for i in indices], size, counted) for indices in batches), counted

        shares = self._ranks.gather(self._fitting(work, totals))
        self._ranks.add_gradients(self.parameters)
        for _, counted in shares:
            totals.add(counted)
        return sum(loss for loss, _ in shares)

    def _fitting(self, work: Callable[[], T], totals: Totals) -> T:
        """What `work` returns, in less and less memory until it fits, at all ranks; NothingFits where it never does."""
        while True:
            found: list[T] = []
            with suppress(OutOfMemory):
                found = [attempt(work, "in training")]
            if all(self._ranks.gather(bool(found))):
                return found[0]
            self._policy.model.zero_grad()
            if not self._go_smaller(totals):
                raise NothingFits

    def _go_smaller(self, totals: Totals) -> bool:
        """Train in less memory from now on; False where there is no less. First blocks are computed again, which costs
        a forward, then micro-batches are halved."""
        policy = self._policy
        if self._config.gradient_checkpointing == "auto" and not policy.checkpointing and blocks_of(policy.model):
            policy.checkpointing = True
        elif self._token_budget > SMALLEST_BUDGET:
            self._token_budget //= 2
            totals.halvings += 1
        else:
            return False
        return True

    def _backward(self, parts: list[Example], size: StepSize, totals: Totals) -> float:
        """Forward and backward of one micro-batch; returns its share of the loss."""
        config = self._config
        batch = self._build(parts)
        log_probs, entropy = self._policy.log_probs(batch, self._rule)
        present = log_probs.detach()
        behaviour = flat_values([known for part in parts for known in part.behaviour], parts, present)
        staleness = flat_values([known for part in parts for known in part.staleness], parts, torch.zeros_like(present))
        advantages, weights = self._per_token(parts, size, log_probs)
        terms = Terms(
            log_probs,
            behaviour=behaviour,
            proximal=flat_values([known for part in parts for known in part.proximal], parts, present),
            staleness=staleness,
            advantages=advantages,
            weights=weights,
            external=self._external(parts, present),
        )
        result = self._objective(terms, self._bounds)
        loss = result.loss
        if self._reference is not None:
            loss = loss + config.beta * kl_penalty(log_probs, self._reference_log_probs(batch), weights)
        self._policy.backward(loss, batch)
        with torch.no_grad():
            totals.tokens += len(log_probs)
            totals.local_tokens += sum(len(known) for part in parts for known in part.staleness if known is not None)
            totals.staleness += float(staleness.sum())
            if totals.steps == 0:  # no weight has moved since fresh tokens were generated
                fresh = flat_values([known for part in parts for known in part.staleness], parts, staleness - 1) == 0
                totals.mismatch = totals.mismatch.plus(behaviour[fresh], present[fresh])
            totals.ratio += float(result.ratio.sum())
            totals.clipped += int(result.clipped.sum())
            totals.entropy += float(entropy)
        return float(loss.detach())

    def _per_token(self, parts: list[Example], size: StepSize, like: Tensor) -> tuple[Tensor, Tensor]:
        """Advantage and weight of every token, [tokens] each."""
        lengths = [len(ids) for part in parts for ids in part.row.completions]
        weights = [token_weight(n, size, self._config.loss_type, self._max_completion_length) for n in lengths]
        advantages = [advantage for part in parts for advantage in part.advantages]
        spread = torch.tensor([advantages, weights], dtype=like.dtype)
        # On the host, which knows how many there are: a device would be waited for.
        advantage, weight = to_device(spread.repeat_interleave(torch.tensor(lengths), dim=1), like.device)
        return advantage, weight

    def _external(self, parts: list[Example], like: Tensor) -> Tensor:
        """bool [tokens]: whether a peer generated it."""
        counts = torch.tensor([len(ids) for part in parts for ids in part.row.completions])
        external = torch.tensor([known for part in parts for known in part.external])
        return to_device(external.repeat_interleave(counts), like.device)

    def _anchored(self, example: Example, totals: Totals) -> Example:
        """With log-probs of the present policy, before the first of several steps moves it, where they are needed."""
        if None not in example.behaviour and self._config.objective in WITHOUT_PROXIMAL:
            return example
        present = self._present_log_probs(example, totals)
        behaviour = [known or now for known, now in zip(example.behaviour, present, strict=True)]
        return replace(example, behaviour=behaviour, proximal=present)

    def _present_log_probs(self, example: Example, totals: Totals) -> list[list[float]]:
        """Of every token, by completion."""

        def work() -> list[list[float]]:
            values: list[list[float]] = []
            for part in self._rows([example]):
                ends = iter(self._log_probs(self._policy, self._build([part])).tolist())
                values += [list(islice(ends, len(ids))) for ids in part.row.completions]
            return values

        return self._fitting(work, totals)

    def _reference_log_probs(self, batch: Batch) -> Tensor:
        assert self._reference is not None
        with getattr(self._reference.model, "disable_adapter", nullcontext)():
            return self._log_probs(self._reference, batch)

    @torch.no_grad()
    def _log_probs(self, policy: Policy, batch: Batch) -> Tensor:
        return policy.log_probs(batch, self._rule, entropy=False)[0]

    def _set_learning_rate(self) -> None:
        """Linear warm-up, then constant."""
        warm = min(1.0, (self.steps + 1) / self._config.warmup_steps) if self._config.warmup_steps else 1.0
        for group in self.optimizer.param_groups:
            group["lr"] = self._config.learning_rate * warm


def _choose_packing(policy: Policy, wanted: str) -> Packing | None:
    if wanted == "padded":
        return None
    if wanted == "packed" and policy.packing is None:
        raise UserError(f"model {policy.name!r} cannot take packed rows; use --training.layout auto")
    return policy.packing


def _frozen(policy: Policy) -> Policy:
    """A copy that stays as it is. Under LoRA the initial policy is the same model with its adapters off."""
    if hasattr(policy.model, "disable_adapter"):
        return policy
    model = attempt(lambda: copy.deepcopy(policy.model).requires_grad_(False), "in copying the model for training.beta")
    return Policy(model, policy.tokenizer, policy.device, policy.autocast_dtype, policy.name, tried=policy.tried)
