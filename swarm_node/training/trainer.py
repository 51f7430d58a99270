"""One update of the policy from scored groups: GRPO with recorded log-probs, micro-batched by a
token budget.

For local groups, behaviour log-probs are those of the policy that generated the text. For external
groups, they are those of this policy when the group is admitted to the training set: the author's
probabilities are unknown and would not be comparable.
"""

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from math import isfinite, sqrt
from pathlib import Path
from typing import TypeVar

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from swarm_node.common.batched import paired
from swarm_node.common.errors import Diverged, first_line
from swarm_node.policy import soundness
from swarm_node.policy.aside import state_of, tensors_of
from swarm_node.policy.batch import (
    Batch,
    TokenGroup,
    build_rows,
    build_tree,
    dynamic_batches,
    micro_batches,
    tokenise,
)
from swarm_node.policy.device import OutOfMemory, attempt, to_device, trim
from swarm_node.policy.policy import Policy
from swarm_node.policy.recompute import blocks_of
from swarm_node.policy.soundness import Damaged
from swarm_node.rollouts.advantages import Advantages, group_advantages
from swarm_node.rollouts.groups import Group, Skipped, StepReport
from swarm_node.settings import MICRO_BATCH, GenerationConfig, TrainingConfig
from swarm_node.training.helpers import Helpers, OptimiserStep
from swarm_node.training.objectives import (
    WITHOUT_PROXIMAL,
    Bounds,
    Objective,
    StepSize,
    Terms,
    Totals,
    decoupled,
    figures_of,
    kl_penalty,
    token_weight,
)
from swarm_node.training.optimisers import build_optimizer, state_tensors, take_step

# How many times their own size a step may move the weights; a useful one moves them by a thousandth
LARGEST_MOVE = 2.0
SMALLEST_BUDGET = 64  # where even this does not fit into memory, smaller micro-batches are no help

T = TypeVar("T")
# From groups, token budget and pads: the groups of each micro-batch
Batching = Callable[..., Iterable[list[TokenGroup]]]


class NothingFits(Exception):
    """Not even the smallest micro-batch fits into memory."""


@dataclass(frozen=True, slots=True)
class Before:
    """What an update of several steps goes back to when it is cut off."""

    weights: list[Tensor]  # of the trained parameters, in memory of the host
    state: dict[Tensor, dict[str, Tensor]]  # of the optimiser, by parameter
    steps: int


class GrpoTrainer:
    """Implements interfaces.Trainer. Owns the optimiser; the weights are the policy's."""

    def __init__(
        self,
        policy: Policy,
        config: TrainingConfig,
        generation: GenerationConfig,
        reference: Policy | None = None,
        *,
        objective: Objective = decoupled,
        advantages: Advantages = group_advantages,
        padded: bool = False,
        recompute: bool | None = None,
    ) -> None:
        """
        Args:
            reference: the initial policy, for the KL penalty; None takes `policy` as it is now.
            advantages: from the rewards of a group.
            padded: one completion a row. Else a common beginning of sequences stands once in a row,
                if the model's logits agree, which is tested once.
            recompute: whether a block of the model keeps only its input and is computed again in
                the backward pass: a third more work, a small part of the memory. None: only if a
                micro-batch would not fit otherwise.
        """
        self.policy, self._config = policy, config
        self._objective, self._advantages = objective, advantages
        self._bounds = Bounds(config.epsilon, config.epsilon_high)
        self._temperature = generation.temperature
        self._max_completion_length = generation.max_completion_length
        self.parameters = [p for p in policy.model.parameters() if p.requires_grad]
        self.optimizer = build_optimizer(self.parameters, config)
        policy.precision.follow(self.optimizer)
        # From the first change of a weight until the round is counted, see `settle`: a round that
        # is given up in that time would leave weights of no round.
        self.stepping = False
        self.steps = 0  # optimiser steps taken in this policy's life
        self._may_step = False  # whether the learning rate was found to suit the weights
        self._packing = self.packing = None if padded else policy.packing
        self._may_recompute = recompute is None
        policy.checkpointing = policy.checkpointing if recompute is None else recompute
        # On a GPU a pass costs more than padding: as few micro-batches as possible.
        self._batching: Batching = micro_batches if policy.device.type == "cpu" else dynamic_batches
        self._trim = trim if policy.frugal else nullcontext
        # Other processes that take a part of the groups; None: this one has them all
        self.helpers: Helpers | None = None
        self._reference = (reference or _frozen(policy)) if config.beta else None
        usual = MICRO_BATCH["cpu" if policy.device.type == "cpu" else "gpu"]
        # Longer groups are cut
        self._token_budget = config.token_budget or max(usual, MICRO_BATCH["group"])
        self._filled = MICRO_BATCH["adapters"] if policy.frugal else config.token_budget or usual

    @property
    def rows(self) -> str:
        """See interfaces.Trainer."""
        return self.packing.value if self.packing else "padded"

    def update(self, groups: Sequence[Group]) -> StepReport:
        """See interfaces.Trainer. Uninformative groups cost nothing, and without any no step is
        taken.
        """
        totals, trained = Totals(), list[TokenGroup]()
        self._trim()  # memory that generation left
        try:
            trained = self._tokenised(groups, totals)
            if trained:
                longest = max(
                    len(group.prompt_ids) + len(row.ids) for group in trained for row in group.rows
                )
                self.packing = self._packing if longest <= self.policy.reach else None
                self._steps(trained, totals)
        except NothingFits:
            totals.skip("out of device memory")
            self.stepping = totals.steps > 0
        self._trim()
        self.policy.version += 1  # also without a step: a version is a batch consumed
        if not totals.steps:
            return StepReport(halvings=totals.halvings, skipped=totals.skipped)
        return self._report(totals, len(trained))

    def _steps(self, groups: list[TokenGroup], totals: Totals) -> None:
        """All steps of the update. Where a signal or a divergence cuts it off, the weights are
        those before it: of one step the gradient changes none, and before several they are copied.
        """
        if self._config.num_iterations == 1:
            self._step(groups, totals)
            return
        groups = [self._anchored(group, totals) for group in groups]
        before = self._copied()
        try:
            for _ in range(self._config.num_iterations - 1):
                self._step(groups, totals)
                self.stepping = False
            self._step(groups, totals)
        except BaseException as error:
            if isinstance(error, Diverged) or not isinstance(error, Exception):
                self._put_back(before)
            raise

    def held(self) -> Iterator[Tensor]:
        """All tensors that training holds between two rounds: of the model, of the reference for a
        KL penalty, and the optimiser's state.
        """
        yield from tensors_of(self.policy.model)
        if self._reference is not None and self._reference is not self.policy:
            yield from tensors_of(self._reference.model)
        yield from state_of(self.optimizer)

    def is_finite(self) -> bool:
        """See interfaces.Trainer."""
        sums = [parameter.detach().float().sum() for parameter in self.parameters]
        return bool(torch.stack(sums).isfinite().all())

    def settle(self) -> None:
        """See interfaces.Trainer."""
        self.stepping = False

    def save(self, file: Path) -> None:
        """See interfaces.Trainer. The file holds the optimiser's state, in safetensors."""
        save_file(state_tensors(self.optimizer, self.parameters), file)

    def restore(self, file: Path | None, steps: int, version: int) -> None:
        """See interfaces.Trainer."""
        tensors: dict[str, Tensor] = {}
        if file is not None:
            try:
                tensors = load_file(file)
            except Exception as error:  # safetensors raises a type of its own
                raise Damaged(f"{file.name}: {first_line(error, 100)}") from error
        soundness.check_optimizer(tensors, self.parameters)
        self.steps, self.policy.version = steps, version
        # Torch's own loading would cast the state of bfloat16 weights to bfloat16
        for key, tensor in tensors.items():
            index, name = key.split(".", 1)
            parameter = self.parameters[int(index)]
            whole = tensor.dim() == 0 and not tensor.is_floating_point()
            self.optimizer.state[parameter][name] = (
                int(tensor) if whole else tensor.to(parameter.device)
            )

    def _copied(self) -> Before:
        """The weights and the optimiser's state, in memory of the host."""
        state = {
            parameter: {name: host_copy(value) for name, value in values.items()}
            for parameter, values in self.optimizer.state.items()
        }
        return Before([host_copy(parameter) for parameter in self.parameters], state, self.steps)

    @torch.no_grad()
    def _put_back(self, before: Before) -> None:
        for parameter, weight in zip(self.parameters, before.weights, strict=True):
            parameter.copy_(weight)
        self.optimizer.state.clear()
        for parameter, values in before.state.items():
            self.optimizer.state[parameter] = {
                name: value.to(parameter.device) if value.dim() else value
                for name, value in values.items()
            }
        self.steps = before.steps
        self.stepping = False

    def _refuse_to_wreck(self) -> None:
        """Raises Diverged where the first step would change the weights by more than their size.

        A step of AdamW moves each weight by about the learning rate (Kingma and Ba, 2015, section
        2.1), so that N weights of norm |w| move by the learning rate times sqrt(N).
        """
        rate = float(self.optimizer.param_groups[0]["lr"])
        norms = torch.stack([parameter.detach().float().norm() for parameter in self.parameters])
        size = float(norms.norm())
        move = rate * sqrt(sum(parameter.numel() for parameter in self.parameters))
        if size and move > LARGEST_MOVE * size:
            raise Diverged(
                f"training.learning_rate {rate:g} would change the weights by {move / size:.0f} "
                "times their size in one step: this round's update was dropped, and the weights "
                "are those before it; give a smaller one, such as 1e-4",
                sound=True,
            )

    def _report(self, totals: Totals, trained_groups: int) -> StepReport:
        tokens, mismatch = totals.tokens, totals.mismatch
        return StepReport(
            optimizer_steps=totals.steps,
            trained_tokens=tokens,
            trained_groups=trained_groups,
            loss=totals.loss / totals.steps,
            grad_norm=totals.grad_norm / totals.steps,
            learning_rate=float(self.optimizer.param_groups[0]["lr"]),
            ratio_mean=totals.ratio / tokens,
            clip_fraction=totals.clipped / tokens,
            entropy=totals.entropy / tokens,
            staleness=totals.staleness / totals.local_tokens if totals.local_tokens else None,
            mismatch_mean=mismatch.mean if mismatch.tokens else None,
            mismatch_max=mismatch.largest if mismatch.tokens else None,
            mismatch_kl=mismatch.kl if mismatch.tokens else None,
            halvings=totals.halvings,
            skipped=totals.skipped,
        )

    def _tokenised(self, groups: Sequence[Group], totals: Totals) -> list[TokenGroup]:
        """The informative groups that can be trained on; counts those that cannot."""
        tokenised: list[TokenGroup] = []
        for group in groups:
            if any(advantages := self._advantages(group.rewards)):
                tokens = tokenise(group, advantages, self.policy)
                if not isinstance(tokens, Skipped) and self._config.only_differences:
                    tokens = tokens.differences()
                if isinstance(tokens, Skipped):
                    totals.skip(tokens.reason)
                elif tokens.rows:
                    tokenised.append(tokens)
        return tokenised

    def _pieces(self, groups: list[TokenGroup]) -> list[TokenGroup]:
        """The groups in pieces that fit into a micro-batch; without a tree each completion is
        one.
        """
        columns = 0 if self.packing is None else self._token_budget
        return [piece for group in groups for piece in group.pieces(columns)]

    def _build(self, pieces: Sequence[TokenGroup]) -> Batch:
        if self.packing is None:
            return build_rows(pieces, self.policy.device)
        return build_tree(pieces, self.policy.device)

    def _step(self, groups: list[TokenGroup], totals: Totals) -> None:
        """One optimiser step over `groups`; gradients of micro-batches add up."""
        lengths = [len(row.predicted) for group in groups for row in group.rows]
        size = StepSize(len(lengths), sum(lengths))
        loss = self._gradient(groups, size, totals)
        grad_norm = float(
            torch.nn.utils.clip_grad_norm_(self.parameters, self._config.max_grad_norm)
        )
        if not isfinite(grad_norm):
            totals.skip("gradient not finite")
        elif grad_norm > 0.0:
            if not self._may_step:
                self._refuse_to_wreck()
                self._may_step = True
            self.stepping = True
            attempt(partial(take_step, self.optimizer, self.steps), "in the optimiser's step")
            self.steps += 1
            totals.steps += 1
            totals.loss += loss
            totals.grad_norm += grad_norm
        self.policy.model.zero_grad()

    def differentiate(self, groups: list[TokenGroup], step: OptimiserStep) -> tuple[float, Totals]:
        """What a helper does for a step that another process takes: leaves the gradients of these
        groups in the parameters, and returns their share of the loss and of the totals. Raises
        NothingFits.
        """
        self._trim()
        self.packing = self._packing if step.packed else None
        totals = Totals()
        loss, counted = self._differentiated(groups, step, totals)
        counted.halvings = totals.halvings
        return loss, counted

    def _gradient(self, groups: list[TokenGroup], size: StepSize, totals: Totals) -> float:
        """Gradients of all groups, and the loss. Helpers take their part of the groups."""
        step = OptimiserStep(size, totals.steps, self.packing is not None)
        if self.helpers is None:
            loss, counted = self._differentiated(groups, step, totals)
        else:
            loss, counted = self._helped(self.helpers, groups, step, totals)
        totals.add(counted)
        return loss

    def _helped(
        self, helpers: Helpers, groups: list[TokenGroup], step: OptimiserStep, totals: Totals
    ) -> tuple[float, Totals]:
        own = helpers.hand_out(groups, step)
        loss, counted = self._differentiated(own, step, totals)
        if missing := helpers.gather():
            # From the beginning: where memory runs out, all gradients so far are dropped
            self.policy.model.zero_grad()
            loss, counted = self._differentiated(own + missing, step, totals)
        return loss + helpers.add(self.policy, counted), counted

    def _differentiated(
        self, groups: list[TokenGroup], step: OptimiserStep, totals: Totals
    ) -> tuple[float, Totals]:
        """Adds the gradients of these groups up in the parameters, by micro-batches. Halvings are
        counted in `totals` at once: they stay where nothing fits at all.
        """

        def work() -> tuple[float, Totals]:
            counted = Totals(steps=step.taken)
            budget = min(self._token_budget, self._filled)
            batches = self._batching(self._pieces(groups), budget, pads=self.packing is None)
            figures = [self._backward(pieces, step.size, counted) for pieces in batches]
            return counted.read(figures), counted

        return self._fitting(work, totals)

    def _fitting(self, work: Callable[[], T], totals: Totals) -> T:
        """What `work` returns, in less and less memory until it fits; NothingFits where it never
        does.
        """
        while True:
            with suppress(OutOfMemory):
                return attempt(work, "in training")
            self.policy.model.zero_grad()
            if not self._go_smaller(totals):
                raise NothingFits

    def _go_smaller(self, totals: Totals) -> bool:
        """Train in less memory from now on; False where there is no less. First blocks are computed
        again, which costs a forward, then micro-batches are halved.
        """
        policy = self.policy
        if self._may_recompute and not policy.checkpointing and blocks_of(policy.model):
            policy.checkpointing = True
        elif self._token_budget > SMALLEST_BUDGET:
            self._token_budget //= 2
            totals.halvings += 1
        else:
            return False
        return True

    def _backward(self, pieces: list[TokenGroup], size: StepSize, totals: Totals) -> Tensor:
        """Forward and backward of one micro-batch; returns its figures. Nothing is read from a
        device here, so that this process builds the next micro-batch while the device computes.
        """
        batch = self._build(pieces)
        log_probs_T, entropy = self.policy.log_probs(batch, self._temperature)
        present_T, weights_T = log_probs_T.detach(), self._weights(batch, size)
        terms = Terms(
            log_probs_T,
            behaviour=torch.where(batch.behaviour_T.isnan(), present_T, batch.behaviour_T),
            proximal=torch.where(batch.proximal_T.isnan(), present_T, batch.proximal_T),
            staleness=batch.staleness_T.nan_to_num(0.0),
            advantages=batch.advantages_T,
            weights=weights_T,
            external=batch.external_T,
        )
        result = self._objective(terms, self._bounds)
        loss = result.loss
        if self._reference is not None:
            loss = loss + self._config.beta * kl_penalty(
                log_probs_T, self._reference_log_probs(batch), weights_T
            )
        self.policy.backward(loss, batch)
        totals.tokens += len(log_probs_T)
        rows = [row for piece in pieces for row in piece.rows]
        totals.local_tokens += sum(len(row.staleness) for row in rows if row.staleness)
        return figures_of(loss, result, terms, entropy, batch.staleness_T == 0)

    def _weights(self, batch: Batch, size: StepSize) -> Tensor:
        """The weight of every token in the loss, [T]."""
        loss_type, longest = self._config.loss_type, self._max_completion_length
        weights = torch.tensor(
            [token_weight(length, size, loss_type, longest) for length in batch.lengths]
        )
        # On the host, which knows the count. On a device the host would have to wait for it.
        return to_device(weights.repeat_interleave(torch.tensor(batch.lengths)), self.policy.device)

    def _anchored(self, group: TokenGroup, totals: Totals) -> TokenGroup:
        """The group with the present policy's log-probs, where needed, before the first of several
        steps moves it.
        """
        recorded = all(row.behaviour is not None for row in group.rows)
        if recorded and self._objective in WITHOUT_PROXIMAL:
            return group
        rows = [
            replace(row, behaviour=row.behaviour or log_probs, proximal=log_probs)
            for row, log_probs in paired(group.rows, self._present_log_probs(group, totals))
        ]
        return replace(group, rows=rows)

    def _present_log_probs(self, group: TokenGroup, totals: Totals) -> list[list[float]]:
        """The present policy's log-prob of every token, by completion."""

        def work() -> list[list[float]]:
            values: list[list[float]] = []
            for piece in self._pieces([group]):
                batch = self._build([piece])
                ends = iter(self._log_probs(self.policy, batch).tolist())
                values += [list(islice(ends, length)) for length in batch.lengths]
            return values

        return self._fitting(work, totals)

    def _reference_log_probs(self, batch: Batch) -> Tensor:
        assert self._reference is not None
        with self._reference.without_adapters():
            return self._log_probs(self._reference, batch)

    @torch.no_grad()
    def _log_probs(self, policy: Policy, batch: Batch) -> Tensor:
        return policy.log_probs(batch, self._temperature, entropy=False)[0]


def host_copy(value: Tensor) -> Tensor:
    """A copy in memory of the host. A number that is not a tensor, such as a count of steps,
    becomes one.
    """
    return torch.as_tensor(value).detach().to("cpu", copy=True)


def _frozen(policy: Policy) -> Policy:
    """A copy that stays as it is. Under LoRA the initial policy is the same model with its adapters
    off.
    """
    if policy.has_adapters:
        return policy
    model = attempt(
        lambda: copy.deepcopy(policy.model).requires_grad_(False),
        "in copying the model for training.beta",
    )
    return Policy(
        model,
        policy.tokenizer,
        policy.device,
        policy.autocast_dtype,
        policy.name,
        tried=policy.tried,
    )
