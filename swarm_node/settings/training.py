"""What an update is, and how its training set is chosen."""

from typing import Annotated, Literal

import tyro
from pydantic import Field

from swarm_node.settings.sections import Count, PlugIn, Positive, Section, Share


class RoundConfig(Section):
    """What a round is made of."""

    questions: Annotated[int, Field(ge=1, le=256)] = 9
    """Prompts per round; each makes a local group. One of each task if equal to the number of tasks."""
    local_groups: Count = 4
    """Local groups in the training set of a round (I of the paper)."""
    external_groups: Count = 4
    """External groups in the training set of a round (J of the paper). 0 trains alone."""
    external_rounds: Positive = 6
    """Rounds that an external group may serve, all within 5 seconds: groups come once a second at most, and a round may
    take a tenth of that. Slow rounds use a group once, as the paper does. Always 1 in simulations."""
    fill_with_local: bool = True
    """If no external group waits, local groups take their place, so a node without peers trains on a full batch. Off in
    simulations: there an arm always trains on the numbers in its name."""
    local_sampler: Literal["uniform", "informative"] = "uniform"
    """How local groups are chosen. uniform: among all (the paper). informative: among those with an advantage."""
    external_sampler: Annotated[str, PlugIn("samplers")] = "uniform"
    """A registered sampler, or FILE:CLASS; docs/how-to/sampler.md lists them. uniform: drop uninformative groups, then
    uniform (the paper). matched (an ablation): a round trains on as many informative groups as if all its groups were
    local."""


class TrainingConfig(Section):
    """The optimiser, the objective, and how an update is cut into passes."""

    learning_rate: Annotated[float, Field(gt=0.0)] = 3e-4
    """Peak rate of AdamW. 3e-4 suits the starters; start at 1e-6 to 1e-5 for a pretrained model."""
    warmup_steps: Count = 0
    """Optimiser steps over which the rate rises linearly from 0."""
    weight_decay: Annotated[float, Field(ge=0.0)] = 0.0
    """Decoupled decay of AdamW; 0 makes it Adam, as in the paper."""
    optimizer: Literal["auto", "adamw", "adamw_8bit"] = "auto"
    """adamw_8bit: AdamW whose state takes two bytes a parameter instead of eight; needs the extra `memory`
    (bitsandbytes). auto: adamw, and adamw_8bit where only that fits into memory and the extra is installed."""
    adam_betas: tuple[float, float] = (0.9, 0.999)
    """Decay rates of AdamW's first and second moments."""
    max_grad_norm: Annotated[float, Field(gt=0.0)] = 1.0
    """Gradients are scaled down to this norm."""
    epsilon: Annotated[float, Field(ge=0.0)] = 0.2
    """Lower clip of the probability ratio: 1 - epsilon."""
    epsilon_high: Annotated[float, Field(ge=0.0)] = 0.28
    """Upper clip of the probability ratio: 1 + epsilon_high."""
    objective: Annotated[str, PlugIn("objectives")] = "clipped"
    """A registered objective, or FILE:FUNCTION. clipped: PPO around the policy that generated the completion. For
    completions of older weights: decoupled (AReaL) clips around the policy before the update and weighs by how the two
    differ; interpolated estimates the log-probs of that policy; truncated is decoupled with a limit of 2; two_sided
    also bounds the ratio of bad tokens."""
    importance_limit: Annotated[float, Field(ge=0.0)] = 0.0
    """Limit of the weight of a token in decoupled, interpolated and truncated; 0 takes 5, and 2 for truncated."""
    beyond_limit: Literal["cap", "mask"] = "cap"
    """What happens to tokens above importance_limit: held there, or left out of the loss."""
    beta: Annotated[float, Field(ge=0.0)] = 0.0
    """Weight of the KL penalty to the initial policy; 0 (the paper) keeps no reference model."""
    loss_type: Literal["grpo", "dapo", "dr_grpo"] = "grpo"
    """Normalisation. grpo: mean of each completion's token mean; dapo: mean over all tokens of the update;
    dr_grpo: sum over tokens divided by completions x max_completion_length."""
    scale_rewards: Annotated[str, PlugIn("advantages")] = "group"
    """How the rewards of a group become advantages: a registered rule, or FILE:FUNCTION. group divides advantages by
    the group's standard deviation; none leaves them in units of reward; rare_first divides, and multiplies by the
    share of failures (F-GRPO); population divides by the population's standard deviation."""
    num_iterations: Positive = 1
    """Passes over the training set of a round. With more than one the ratio leaves 1 and clipping matters."""
    minibatches: Positive = 1
    """Optimiser steps per pass: the training set is split into this many parts."""
    token_budget: Count = 0
    """Tokens, padding included, of one forward and backward pass; gradients accumulate over such micro-batches.
    0 takes 16384 on a GPU and 4096 on a CPU."""
    gradient_checkpointing: Literal["auto", "on", "off"] = "auto"
    """on: a block of the model keeps its input alone and is computed again on the way back: a third more work, a small
    part of the memory. auto: on where a micro-batch would not fit otherwise."""
    micro_batches: Literal["tight", "dynamic"] = "tight"
    """How rows are put together within the token budget. tight: close a micro-batch before its padding grows large.
    dynamic (AReaL): as few micro-batches as possible, evenly filled, for devices on which a pass costs more than
    padding."""
    layout: Literal["auto", "packed", "padded"] = "auto"
    """packed: each prompt once with its completions behind it, under tree attention or a tree mask. padded: one
    completion a row. auto: packed if the model's logits agree, tested once at start; `check` shows the result."""
    mask_truncated_completions: bool = False
    """Leave completions that were cut off out of the loss."""


class PoolConfig(Section):
    """How many external groups wait, and how long."""

    max_age: Count = 2
    """Rounds that an external group stays available after its arrival."""
    max_groups: Positive = 1024
    """Groups held at most; the oldest go first."""
    max_per_peer: Positive = 32
    """Groups held of any one peer."""


class DefenceConfig(Section):
    """Against external completions that are right and poisoned. docs/results/poisoning.md measures every layer."""

    use: Annotated[
        tuple[Annotated[str, PlugIn("defences")], ...],
        tyro.conf.arg(aliases=["--defence"]),
    ] = (
        "length",
        "ngrams",
        "rescue",
    )
    """Layers, in their order: registered names, or FILE:CLASS. length: drop completions much longer than local ones.
    ngrams: drop completions with strings that better external completions share and local ones lack. rescue: put
    external completions into a group with local completions of the same prompt, where every local one scored lower,
    without the rest of the external group."""
    local_completions: Annotated[int, Field(ge=2, le=64)] = 6
    """rescue: local completions generated for each external prompt."""
    external_completions: Positive = 2
    """rescue: distinct external completions added to them at most."""
    length_factor: Annotated[float, Field(gt=0.0)] = 2.0
    """length: completions longer than this many times a long local one (95th percentile of characters) are dropped."""
    enriched_share: Share = 0.15
    """ngrams: a string is suspect when at least this share of the better external completions holds it ..."""
    enrichment: Annotated[float, Field(ge=1.0)] = 4.0
    """ngrams: ... and this many times as often as local completions do."""


class AsynchronousConfig(Section):
    """Generate and train at the same time, in two processes. `swarm-node check` says where it helps."""

    enabled: bool = False
    """Generate in a second process, beside training. Needs two cores or devices."""
    max_staleness: Count = 1
    """Staleness allowed: updates between the weights that generate a completion and those that train on it. 0 takes
    turns: exactly the synchronous loop. With more than 1 choose training.objective decoupled."""
    generator_device: str = "auto"
    """Device that generates. auto: a second GPU where there is one, else model.device."""
    trainer_device: str = "auto"
    """Device that trains. auto: model.device."""
    interrupt: bool = False
    """Take new weights in the middle of a completion, instead of at the next round. Completions are fresher, but what
    was generated so far has to be computed again."""
