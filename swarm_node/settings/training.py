"""The options of how a node trains: its rounds, the objective, the defence, and when it saves and
validates.

A field is an option, and the text below it is its help: `make reference` copies it to
docs/reference/options.md. What an option does stands in training/ and rollouts/.
"""

from typing import Annotated, Literal

from pydantic import Field

from swarm_node.settings.sections import Alias, Count, PlugIn, Positive, Section

# Tokens. On a CPU larger micro-batches take more memory and hardly less time, but a group of up to
# 4096 is not cut: each piece would compute its prompt again. adapters: on a CPU, where memory is
# short
MICRO_BATCH = {"gpu": 16384, "cpu": 2048, "group": 4096, "adapters": 256}


# The layers of the defence that ship: rollouts/defence.py has their code
LAYERS = ("length", "ngrams", "rescue")
# The rules for advantages that ship: rollouts/advantages.py has their code
ADVANTAGES = ("group", "population", "none")


class RoundConfig(Section):
    """What a round is made of."""

    questions: Annotated[int, Field(ge=1, le=256)] = 9
    """Prompts per round. Each prompt makes one local group. If this is the number of tasks, each
    task gets one prompt. If a defence layer needs to compare, some of these prompts are replaced by
    prompts of peers' groups. At least `local_groups` of your own always remain.
    """
    local_groups: Count = 8
    """Number of local groups in the training set of a round (I in the paper, which uses 4)."""
    external_groups: Count = 4
    """Number of external groups, those of peers, in the training set of a round (J in the paper).
    0: train alone.
    """
    fill: Count = 0
    """External groups that a round may train on in addition to `external_groups`: one in the
    place of each of its local groups that teaches nothing, because its completions are all wrong or
    all right. So a round takes more while its own groups teach nothing, and fewer again when they
    do. 0: none.
    """
    external_tokens: Count = 0
    """Tokens of peers' completions that a round trains on at most. Longer groups are skipped and
    counted as "too long for this machine". 0: as many as if peers wrote as much as this node does,
    and a tenth of what its own completions of the round have, so that a round takes at most a tenth
    longer than among nodes like this one.
    """
    external_pairs: Count = 0
    """Completions of an external group that a round trains on: at most this number of those
    that score above the mean of the group, and as many of the others. Fewer completions cost less.
    0: train on all completions.
    """
    prefix: Count = 0
    """Characters of a peer's right completion from which this node continues, where a group of
    its own is all wrong. In its next round it completes the peer's question in place of one of its
    own, starting with these characters, and trains on what it writes after them. It takes at most
    half of a completion, and at most `external_groups` such groups a round. 0: never.
    """
    sampler: Annotated[str, PlugIn("samplers")] = "uniform"
    """How the groups of a training set are chosen: a registered sampler, or FILE:CLASS.
    docs/how-to/sampler.md lists the samplers. uniform: skip uninformative groups, and choose from
    the others with equal probability, as in the paper.
    """

    @property
    def most_external(self) -> int:
        """External groups that a round trains on at most."""
        return self.external_groups + self.fill if self.external_groups else 0


class TrainingConfig(Section):
    """The optimiser, the objective, and how an update is split into passes."""

    learning_rate: Annotated[float, Field(gt=0.0)] = 3e-4
    """Learning rate of AdamW. 3e-4 suits the starters, and 2e-4 suits LoRA adapters. To train all
    weights of a pre-trained model, start at 1e-6 to 1e-5.
    """
    weight_decay: Annotated[float, Field(ge=0.0)] = 0.0
    """Decoupled weight decay of AdamW. 0 makes it plain Adam, as in the paper."""
    optimizer: Literal["auto", "adamw", "adamw_8bit"] = "auto"
    """adamw_8bit: AdamW whose state takes two bytes per parameter instead of eight; it needs the
    extra `memory` (bitsandbytes). auto: adamw, or adamw_8bit if only that fits into memory and the
    extra is installed.
    """
    adam_betas: tuple[float, float] = (0.9, 0.999)
    """Decay rates of AdamW's first and second moments."""
    max_grad_norm: Annotated[float, Field(gt=0.0)] = 1.0
    """If the norm of the gradient is larger than this, the gradient is scaled down to it."""
    epsilon: Annotated[float, Field(ge=0.0)] = 0.2
    """Lower clip of the probability ratio: 1 - epsilon."""
    epsilon_high: Annotated[float, Field(ge=0.0)] = 0.28
    """Upper clip of the probability ratio: 1 + epsilon_high."""
    objective: Annotated[str, PlugIn("objectives")] = "decoupled"
    """A registered objective, or FILE:FUNCTION. decoupled (AReaL): PPO clipped around the policy
    just before the update. Each token is weighted by how much that policy differs from the one that
    generated it (older weights, or another precision); a token that has become more than 5 times as
    probable is skipped. truncated: the same, with the weight capped at 2. clipped: PPO clipped
    around the policy that generated the token.
    """
    beta: Annotated[float, Field(ge=0.0)] = 0.0
    """Weight of the KL penalty towards the initial policy. With 0, as in the paper, no reference
    model is kept.
    """
    loss_type: Literal["grpo", "dapo", "dr_grpo"] = "grpo"
    """How the loss is normalised. grpo: the mean over completions of each completion's mean over
    its tokens. dapo: the mean over all tokens of the update. dr_grpo: the sum over tokens, divided
    by the number of completions times max_completion_length.
    """
    scale_rewards: Annotated[str, PlugIn("advantages", besides=ADVANTAGES)] = "group"
    """How the rewards of a group become advantages: a registered rule, or FILE:FUNCTION. group:
    divide by the sample standard deviation of the group. population: divide by the population
    standard deviation. none: leave advantages in units of reward.
    """
    only_differences: bool = False
    """Train only on what distinguishes the completions of a group: skip completions with an
    advantage of 0, and the tokens with which all completions of a group begin. The published recipe
    for Temporal Clue does this.
    """
    num_iterations: Positive = 1
    """Passes over the training set of a round. With more than one, the probability ratio moves away
    from 1, and clipping matters.
    """
    token_budget: Count = 0
    """Tokens, padding included, in one forward and backward pass; gradients accumulate over such
    micro-batches. 0: 16384 on a GPU. On a CPU 2048, or up to 4096 if a single group needs it; for
    adapters on a CPU with little memory as many as fit, at least 256.
    """


class DefenceConfig(Section):
    """Protection against external completions that are correct but poisoned.
    docs/results/poisoning.md measures every layer.
    """

    layers: Annotated[
        tuple[Annotated[str, PlugIn("defences", besides=LAYERS)], ...], Alias("--defence")
    ] = LAYERS
    """Layers of the defence, in the order in which they work: these names, or FILE:CLASS. ngrams:
    drop completions that contain strings which better external completions share and local ones
    lack. rescue: complete the prompt here as well, and keep only those external completions that
    score higher than the mean of the local ones; they join the local group. length: drop
    completions that are much longer than local ones; it keeps small
    models from learning from larger ones. `round.external_tokens` bounds what long
    completions cost.
    """


class AsynchronousConfig(Section):
    """Generate and train at the same time, in two processes. `swarm-node check` tells you whether
    this would help.
    """

    enabled: bool = False
    """Generate in a second process while this one trains. Needs two cores or two devices."""
    max_staleness: Count = 1
    """Allowed staleness: the number of updates between the weights that generate a completion and
    the weights that train on it. 0: the two processes take turns, which is exactly the synchronous
    loop.
    """


class CheckpointConfig(Section):
    """When to save, and how much to keep."""

    minutes: Annotated[float, Field(gt=0.0)] = 10.0
    """Minutes between checkpoints, which is the most training that is lost if the machine fails.
    The first checkpoint is written after the first round, and another one whenever the node stops.
    """
    every: Count = 0
    """Rounds between checkpoints, in addition to those by time. 0: by time alone."""


class ValidationConfig(Section):
    """Held-out questions between rounds. Off by default, since generating answers takes time."""

    every: Count = 0
    """Rounds between validations. 0: no validation. The checkpoint with the highest reward is kept
    in the folder `best` of the home folder, next to the latest checkpoints.
    """
    questions: Positive = 64
    """Number of held-out questions in each validation, spread over the tasks. They are the same
    every time.
    """
