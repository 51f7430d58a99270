"""What an update is, and how its training set is chosen."""

from typing import Annotated, Literal

from pydantic import Field

from swarm_node.settings.sections import Alias, Count, PlugIn, Positive, Section


class RoundConfig(Section):
    """What a round is made of."""

    questions: Annotated[int, Field(ge=1, le=256)] = 9
    """Prompts per round; each makes a local group. One of each task if equal to the number of tasks."""
    local_groups: Count = 4
    """Local groups in the training set of a round (I of the paper)."""
    external_groups: Count = 4
    """External groups in the training set of a round (J of the paper). 0 trains alone."""
    sampler: Annotated[str, PlugIn("samplers")] = "uniform"
    """A registered sampler, or FILE:CLASS; docs/how-to/sampler.md lists them. uniform: drop uninformative groups, then
    uniform (the paper)."""


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
    token_budget: Count = 0
    """Tokens, padding included, of one forward and backward pass; gradients accumulate over such micro-batches.
    0 takes 16384 on a GPU; on a CPU 4096, and 512 for adapters."""
    mask_truncated_completions: bool = False
    """Leave completions that were cut off out of the loss."""


class DefenceConfig(Section):
    """Against external completions that are right and poisoned. docs/results/poisoning.md measures every layer."""

    layers: Annotated[
        tuple[Annotated[str, PlugIn("defences")], ...],
        Alias("--defence"),
    ] = (
        "length",
        "ngrams",
        "rescue",
    )
    """Layers, in their order: registered names, or FILE:CLASS. length: drop completions much longer than local ones.
    ngrams: drop completions with strings that better external completions share and local ones lack. rescue: put
    external completions into a group with local completions of the same prompt, where every local one scored lower,
    without the rest of the external group."""


class AsynchronousConfig(Section):
    """Generate and train at the same time, in two processes. `swarm-node check` says where it helps."""

    enabled: bool = False
    """Generate in a second process, beside training. Needs two cores or devices."""
    max_staleness: Count = 1
    """Staleness allowed: updates between the weights that generate a completion and those that train on it. 0 takes
    turns: exactly the synchronous loop. With more than 1 choose training.objective decoupled."""
