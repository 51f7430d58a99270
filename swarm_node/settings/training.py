"""How a node trains: its rounds, the objective, the defence, and when it saves and validates."""

from typing import Annotated, Literal

from pydantic import Field

from swarm_node.settings.sections import Alias, Count, PlugIn, Positive, Section

# Tokens. On a CPU larger micro-batches take more memory and hardly less time, but a group of up to
# 4096 is not cut: each piece would compute its prompt again. adapters: on a CPU, where memory is
# short
MICRO_BATCH = {"gpu": 16384, "cpu": 2048, "group": 4096, "adapters": 256}


class RoundConfig(Section):
    """What a round is made of."""

    questions: Annotated[int, Field(ge=1, le=256)] = 9
    """Prompts per round; each makes a local group. One of each task if equal to the number of
    tasks. Where the defence compares, questions of peers take the places of some, but for as many
    as local_groups.
    """
    local_groups: Count = 8
    """Local groups in the training set of a round (I of the paper, 4 there)."""
    external_groups: Count = 4
    """External groups in the training set of a round (J of the paper). 0 trains alone."""
    sampler: Annotated[str, PlugIn("samplers")] = "uniform"
    """A registered sampler, or FILE:CLASS; docs/how-to/sampler.md lists them. uniform: drop
    uninformative groups, then uniform (the paper).
    """


class TrainingConfig(Section):
    """The optimiser, the objective, and how an update is cut into passes."""

    learning_rate: Annotated[float, Field(gt=0.0)] = 3e-4
    """Learning rate of AdamW. 3e-4 suits the starters; start at 1e-6 to 1e-5 for a pretrained
    model.
    """
    weight_decay: Annotated[float, Field(ge=0.0)] = 0.0
    """Decoupled decay of AdamW; 0 makes it Adam, as in the paper."""
    optimizer: Literal["auto", "adamw", "adamw_8bit"] = "auto"
    """adamw_8bit: AdamW whose state takes two bytes a parameter instead of eight; needs the extra
    `memory` (bitsandbytes). auto: adamw, and adamw_8bit where only that fits into memory and the
    extra is installed.
    """
    adam_betas: tuple[float, float] = (0.9, 0.999)
    """Decay rates of AdamW's first and second moments."""
    max_grad_norm: Annotated[float, Field(gt=0.0)] = 1.0
    """Gradients are scaled down to this norm."""
    epsilon: Annotated[float, Field(ge=0.0)] = 0.2
    """Lower clip of the probability ratio: 1 - epsilon."""
    epsilon_high: Annotated[float, Field(ge=0.0)] = 0.28
    """Upper clip of the probability ratio: 1 + epsilon_high."""
    objective: Annotated[str, PlugIn("objectives")] = "decoupled"
    """A registered objective, or FILE:FUNCTION. decoupled (AReaL): PPO around the policy before the
    update, weighed by how the one that generated differs, older or of another precision; a token
    that has become more than 5 times as probable is left out. truncated: with a limit of 2, to
    which larger weights are clamped. clipped: PPO around the one that generated.
    """
    beta: Annotated[float, Field(ge=0.0)] = 0.0
    """Weight of the KL penalty to the initial policy; 0 (the paper) keeps no reference model."""
    loss_type: Literal["grpo", "dapo", "dr_grpo"] = "grpo"
    """Normalisation. grpo: mean of each completion's token mean; dapo: mean over all tokens of the
    update; dr_grpo: sum over tokens divided by completions x max_completion_length.
    """
    scale_rewards: Annotated[str, PlugIn("advantages")] = "group"
    """How the rewards of a group become advantages: a registered rule, or FILE:FUNCTION. group
    divides advantages by the group's standard deviation; none leaves them in units of reward;
    population divides by the population's standard deviation.
    """
    only_differences: bool = False
    """Train on what tells the completions of a group apart: leave out completions of advantage 0,
    and the tokens that all completions of a group begin with. The recipe published for Temporal
    Clue does.
    """
    num_iterations: Positive = 1
    """Passes over the training set of a round. With more than one the ratio leaves 1 and clipping
    matters.
    """
    token_budget: Count = 0
    """Tokens, padding included, of one forward and backward pass; gradients accumulate over such
    micro-batches. 0 takes 16384 on a GPU; on a CPU 2048, or up to 4096 for one group; for adapters
    there what little memory allows, at least 256.
    """


class DefenceConfig(Section):
    """Against external completions that are right and poisoned. docs/results/poisoning.md measures
    every layer.
    """

    layers: Annotated[tuple[Annotated[str, PlugIn("defences")], ...], Alias("--defence")] = (
        "length",
        "ngrams",
        "rescue",
    )
    """Layers, in their order: registered names, or FILE:CLASS. length: drop completions much longer
    than local ones. ngrams: drop completions with strings that better external completions share
    and local ones lack. rescue: complete the prompt here, too, and add external completions that
    score higher than the mean of the local ones, without the rest of the external group.
    """


class AsynchronousConfig(Section):
    """Generate and train at the same time, in two processes. `swarm-node check` says where it
    helps.
    """

    enabled: bool = False
    """Generate in a second process, beside training. Needs two cores or devices."""
    max_staleness: Count = 1
    """Staleness allowed: updates between the weights that generate a completion and those that
    train on it. 0 takes turns: exactly the synchronous loop.
    """


class CheckpointConfig(Section):
    """When to save, and how much to keep."""

    minutes: Annotated[float, Field(gt=0.0)] = 10.0
    """Minutes between checkpoints: so much is lost at most when the machine fails. The first one is
    written after the first round, and one is always written when the node stops.
    """
    every: Count = 0
    """Rounds between checkpoints, besides those by time. 0: by time alone."""


class ValidationConfig(Section):
    """Held-out questions between rounds. Off by default: it costs generation."""

    every: Count = 0
    """Rounds between validations; 0 turns them off. The checkpoint with the highest reward is kept
    in the folder `best` of the home, beside the last ones.
    """
    questions: Positive = 64
    """Held-out questions of each validation, over the tasks in turn; always the same ones."""
